/* One message per request, and the next request only after the answer: what services do that
 * publish while somebody waits. librdkafka's threads would cost more than the broker, so the
 * requests are made here by hand: Produce version 12, which every current broker serves. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

enum {
    PRODUCE_KEY = 0,
    PRODUCE_VERSION = 12,
    REQUEST_TIMEOUT_MS = 30000,
    WAIT_MS = 1000,
    MAX_TOPIC_BYTES = 100,  /* lengths below 127 are one byte in the compact encoding */
    BATCH_HEADER_BYTES = 61,
    CHECKSUMMED_FROM = 21,
    OVERHEAD_BYTES = 1024,  /* more than everything but the topic's name and the payload */
    ANSWER_BYTES = 4096,
};

struct bytes {
    unsigned char *data;
    size_t size;
};

struct connection {
    int fd;
    int64_t next_sequence;
    unsigned char answer[ANSWER_BYTES];
    size_t received;
};

struct request {
    struct bytes frame;
    size_t batch_at; /* where the record batch begins */
    size_t value_at; /* where the message begins */
};

static uint32_t crc_table[256];

/* The Castagnoli polynomial, reflected, as record batches use it. */
static void crc_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        crc_table[byte] = crc;
    }
}

static uint32_t crc32c(const unsigned char *data, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t at = 0; at < size; at++)
        crc = crc >> 8 ^ crc_table[(crc ^ data[at]) & 0xff];
    return ~crc;
}

static void put(struct bytes *out, uint64_t value, int size_bytes)
{
    for (int shift = 8 * (size_bytes - 1); shift >= 0; shift -= 8)
        out->data[out->size++] = (unsigned char)(value >> shift);
}

static void put_at(struct bytes *out, size_t at, uint64_t value, int size_bytes)
{
    struct bytes place = {out->data + at, 0};
    put(&place, value, size_bytes);
}

static void put_uvarint(struct bytes *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        out->data[out->size++] = (unsigned char)(value | 0x80);
    out->data[out->size++] = (unsigned char)value;
}

static size_t uvarint_bytes(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static void put_text(struct bytes *out, const char *text, size_t size)
{
    memcpy(out->data + out->size, text, size);
    out->size += size;
}

static void put_batch(struct request *request, int size_bytes)
{
    struct bytes *out = &request->frame;
    struct timespec now;
    /* Attributes, two deltas, key and header count are a byte each; lengths are zigzag numbers. */
    uint64_t record_bytes = 5 + uvarint_bytes(2 * (uint64_t)size_bytes) + (uint64_t)size_bytes;
    size_t batch_bytes = BATCH_HEADER_BYTES + uvarint_bytes(2 * record_bytes) + record_bytes;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;

    put_uvarint(out, batch_bytes + 1);
    request->batch_at = out->size;
    put(out, 0, 8);                    /* base offset */
    put(out, batch_bytes - 12, 4);     /* what follows */
    put(out, (uint64_t)-1, 4);         /* leader epoch */
    put(out, 2, 1);                    /* format */
    put(out, 0, 4);                    /* checksum, filled in for each message */
    put(out, 0, 2);                    /* attributes */
    put(out, 0, 4);                    /* last offset delta */
    put(out, now_ms, 8);
    put(out, now_ms, 8);
    put(out, (uint64_t)-1, 8);         /* producer */
    put(out, (uint64_t)-1, 2);
    put(out, (uint64_t)-1, 4);
    put(out, 1, 4);                    /* records */
    put_uvarint(out, 2 * record_bytes);
    put(out, 0, 3);                    /* attributes and deltas */
    put_uvarint(out, 1);               /* no key */
    put_uvarint(out, 2 * (uint64_t)size_bytes);
    request->value_at = out->size;
    out->size += (size_t)size_bytes;
    put_uvarint(out, 0);               /* no headers */
}

static struct request request_new(const struct options *options)
{
    struct request request = {0};
    size_t topic_bytes = strlen(options->topic);
    if (topic_bytes > MAX_TOPIC_BYTES)
        die("requests", "the topic's name is too long");
    request.frame.data = calloc(1, OVERHEAD_BYTES + topic_bytes + (size_t)options->size_bytes);
    if (request.frame.data == NULL)
        die("requests", "out of memory");
    struct bytes *out = &request.frame;
    put(out, 0, 4);                    /* size of the frame, filled in below */
    put(out, PRODUCE_KEY, 2);
    put(out, PRODUCE_VERSION, 2);
    put(out, 0, 4);                    /* correlation id */
    put(out, 5, 2);
    put_text(out, "bench", 5);
    put(out, 0, 1);                    /* no tagged fields in the header */
    put(out, 0, 1);                    /* no transactional id */
    put(out, 1, 2);                    /* acks */
    put(out, REQUEST_TIMEOUT_MS, 4);
    put(out, 2, 1);                    /* one topic */
    put(out, topic_bytes + 1, 1);
    put_text(out, options->topic, topic_bytes);
    put(out, 2, 1);                    /* one partition */
    put(out, 0, 4);
    put_batch(&request, options->size_bytes);
    put(out, 0, 3);                    /* no tagged fields: partition, topic, request */
    put_at(out, 0, out->size - 4, 4);
    return request;
}

static void send_next(struct connection *connection, struct request *request,
                      const struct payloads *payloads, int step)
{
    struct bytes *frame = &request->frame;
    unsigned char *batch = frame->data + request->batch_at;
    size_t batch_bytes = frame->size - 3 - request->batch_at;
    payload_write(payloads, (uint64_t)connection->next_sequence, 0,
                  (char *)frame->data + request->value_at);
    put_at(frame, request->batch_at + 17,
           crc32c(batch + CHECKSUMMED_FROM, batch_bytes - CHECKSUMMED_FROM), 4);
    put_at(frame, 8, (uint64_t)connection->next_sequence & 0x7fffffff, 4);
    connection->next_sequence += step;
    connection->received = 0;
    if (send(connection->fd, frame->data, frame->size, MSG_NOSIGNAL) != (ssize_t)frame->size)
        die("send", strerror(errno));
}

static uint32_t number_at(const unsigned char *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

/* Whether the answer is whole; the error code follows lengths that the request determines. */
static int take_answer(struct connection *connection, const struct options *options)
{
    ssize_t got = recv(connection->fd, connection->answer + connection->received,
                       ANSWER_BYTES - connection->received, 0);
    if (got <= 0)
        die("receive", got == 0 ? "the broker closed the connection" : strerror(errno));
    connection->received += (size_t)got;
    if (connection->received < 4 || connection->received < 4 + number_at(connection->answer))
        return 0;
    /* Size, correlation id, tags, topics, name, partitions, index. */
    size_t code_at = 4 + 4 + 1 + 1 + 1 + strlen(options->topic) + 1 + 4;
    if (connection->received < code_at + 2 || connection->answer[code_at] != 0 ||
        connection->answer[code_at + 1] != 0)
        die("requests", "the broker refused a message");
    return 1;
}

static int connected(const char *brokers)
{
    char host[256];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    const char *colon = strrchr(brokers, ':');
    int fd, yes = 1;
    if (colon == NULL || (size_t)(colon - brokers) >= sizeof host)
        die("brokers", brokers);
    memcpy(host, brokers, (size_t)(colon - brokers));
    host[colon - brokers] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        die("address", brokers);
    fd = socket(found->ai_family, found->ai_socktype, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
        die("connect", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    freeaddrinfo(found);
    return fd;
}

/* Connection k of n sends the messages k, k + n, k + 2n and so on. */
void run_requests(const struct options *options)
{
    struct payloads payloads = payloads_new(options->size_bytes);
    struct request request = request_new(options);
    struct connection *connections = calloc((size_t)options->clients, sizeof *connections);
    struct epoll_event ready[64];
    int poller = epoll_create1(0);
    int64_t answered = 0;
    if (connections == NULL || poller < 0)
        die("requests", "no memory or no poller");
    crc_prepare();
    for (int i = 0; i < options->clients; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        connections[i] = (struct connection){.fd = connected(options->brokers), .next_sequence = i};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event) != 0)
            die("epoll", strerror(errno));
    }

    uint64_t started_ns = now_ns();
    uint64_t give_up_ns = started_ns + (uint64_t)options->timeout_s * 1000000000u;
    for (int i = 0; i < options->clients && i < options->count; i++)
        send_next(&connections[i], &request, &payloads, options->clients);
    while (answered < options->count) {
        int count = epoll_wait(poller, ready, sizeof ready / sizeof *ready, WAIT_MS);
        for (int i = 0; i < count; i++) {
            struct connection *connection = ready[i].data.ptr;
            if (!take_answer(connection, options))
                continue;
            answered++;
            if (connection->next_sequence < options->count)
                send_next(connection, &request, &payloads, options->clients);
        }
        if (now_ns() > give_up_ns)
            die("requests", "out of time");
    }
    printf("{\"messages\": %lld, \"seconds\": %.6f}\n", (long long)answered,
           (double)(now_ns() - started_ns) / 1e9);
}
