#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "load.h"

enum { POLL_EVERY_MESSAGES = 1000, CONSUME_BATCH_MESSAGES = 1000, POLL_MS = 100 };

void run_produce(const struct options *options)
{
    struct deliveries deliveries = {0};
    struct payloads payloads = payloads_new(options->size_bytes);
    char *message = malloc((size_t)options->size_bytes);
    rd_kafka_t *producer = producer_new(options, &deliveries);
    rd_kafka_topic_t *topic = open_topic(producer, options);
    uint64_t started_ns = now_ns();
    uint64_t give_up_ns = started_ns + (uint64_t)options->timeout_s * 1000000000u;

    for (int64_t sequence = 0; sequence < options->count; sequence++) {
        payload_write(&payloads, (uint64_t)sequence, 0, message);
        while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, message,
                                (size_t)options->size_bytes, NULL, 0, NULL) == -1) {
            if (rd_kafka_last_error() != RD_KAFKA_ERR_QUEUE_FULL)
                die("produce", rd_kafka_err2str(rd_kafka_last_error()));
            if (now_ns() > give_up_ns)
                die("produce", "out of time");
            rd_kafka_poll(producer, POLL_MS);
        }
        if (sequence % POLL_EVERY_MESSAGES == 0)
            rd_kafka_poll(producer, 0);
    }
    while (deliveries.done < options->count) {
        if (now_ns() > give_up_ns)
            die("produce", "out of time");
        rd_kafka_poll(producer, POLL_MS);
    }
    double seconds = (double)(now_ns() - started_ns) / 1e9;

    printf("{\"messages\": %lld, \"failed\": %lld, \"last_error\": \"%s\", \"seconds\": %.6f}\n",
           (long long)options->count, (long long)deliveries.failed,
           deliveries.failed ? rd_kafka_err2str(deliveries.last_error) : "", seconds);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(producer);
    free(message);
    free(payloads.pool);
}

/* What one reader found, message by message. */
struct tally {
    int64_t received;
    int64_t damaged;
    int64_t repeated;
    int64_t out_of_order;
    unsigned char *seen;    /* one bit for each sequence number */
    int64_t *next_offset;   /* by partition */
    int64_t *last_sequence; /* by partition and writer; what one wrote only grows */
};

struct reader {
    const struct options *options;
    struct tally tally;
    uint64_t first_ns;
    uint64_t ended_ns; /* before its client is taken down */
    pthread_t thread;
};

static int is_next_offset(const struct options *options, int64_t offset, int64_t expected)
{
    /* The end of a transaction takes an offset, too. */
    return options->transaction_messages ? offset >= expected : offset == expected;
}

static void note(struct tally *tally, const struct options *options,
                 const struct payloads *payloads, const rd_kafka_message_t *message)
{
    uint64_t sequence;
    tally->received++;
    if (payload_check(payloads, message->payload, message->len, &sequence) != 0 ||
        sequence >= (uint64_t)options->count) {
        tally->damaged++;
        return;
    }
    if (tally->seen[sequence / 8] & (1u << (sequence % 8)))
        tally->repeated++;
    tally->seen[sequence / 8] |= (unsigned char)(1u << (sequence % 8));
    int64_t *last = &tally->last_sequence[message->partition * options->writers +
                                          (int)(sequence % (uint64_t)options->writers)];
    if (!is_next_offset(options, message->offset, tally->next_offset[message->partition]) ||
        (int64_t)sequence <= *last)
        tally->out_of_order++;
    tally->next_offset[message->partition] = message->offset + 1;
    *last = (int64_t)sequence;
}

static struct tally tally_new(const struct options *options)
{
    struct tally tally = {0};
    int lines = options->partitions * options->writers;
    tally.seen = calloc((size_t)options->count / 8 + 1, 1);
    tally.next_offset = calloc((size_t)options->partitions, sizeof *tally.next_offset);
    tally.last_sequence = malloc((size_t)lines * sizeof *tally.last_sequence);
    if (tally.seen == NULL || tally.next_offset == NULL || tally.last_sequence == NULL)
        die("consume", "out of memory");
    for (int line = 0; line < lines; line++)
        tally.last_sequence[line] = -1;
    return tally;
}

static void *read_all(void *argument)
{
    struct reader *reader = argument;
    const struct options *options = reader->options;
    struct payloads payloads = payloads_new(options->size_bytes);
    rd_kafka_message_t *batch[CONSUME_BATCH_MESSAGES];
    rd_kafka_t *consumer = consumer_new(options);
    rd_kafka_topic_t *topic = open_topic(consumer, options);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
    uint64_t give_up_ns = now_ns() + (uint64_t)options->timeout_s * 1000000000u;

    for (int partition = 0; partition < options->partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, partition, 0, queue) == -1)
            die("consume", rd_kafka_err2str(rd_kafka_last_error()));
    while (reader->tally.received < options->count) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, POLL_MS, batch, CONSUME_BATCH_MESSAGES);
        if (got > 0 && reader->first_ns == 0)
            reader->first_ns = now_ns();
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err == 0)
                note(&reader->tally, options, &payloads, batch[i]);
            else if (batch[i]->err != RD_KAFKA_ERR_PARTITION_EOF)
                die("consume", rd_kafka_err2str(batch[i]->err));
            rd_kafka_message_destroy(batch[i]);
        }
        if (now_ns() > give_up_ns)
            die("consume", "out of time");
    }
    reader->ended_ns = now_ns();
    for (int partition = 0; partition < options->partitions; partition++)
        rd_kafka_consume_stop(topic, partition);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(consumer);
    free(payloads.pool);
    return NULL;
}

/* Every reader reads all there is. */
void run_consume(const struct options *options)
{
    struct reader *readers = calloc((size_t)options->clients, sizeof *readers);
    struct tally sum = {0};
    uint64_t started_ns = now_ns(), first_ns = UINT64_MAX, ended_ns = 0;

    if (readers == NULL)
        die("consume", "out of memory");
    for (int i = 0; i < options->clients; i++) {
        readers[i] = (struct reader){.options = options, .tally = tally_new(options)};
        if (pthread_create(&readers[i].thread, NULL, read_all, &readers[i]) != 0)
            die("consume", "no thread");
    }
    for (int i = 0; i < options->clients; i++) {
        pthread_join(readers[i].thread, NULL);
        sum.received += readers[i].tally.received;
        sum.damaged += readers[i].tally.damaged;
        sum.repeated += readers[i].tally.repeated;
        sum.out_of_order += readers[i].tally.out_of_order;
        first_ns = readers[i].first_ns < first_ns ? readers[i].first_ns : first_ns;
        ended_ns = readers[i].ended_ns > ended_ns ? readers[i].ended_ns : ended_ns;
    }
    printf("{\"messages\": %lld, \"damaged\": %lld, \"repeated\": %lld, \"out_of_order\": %lld, "
           "\"seconds\": %.6f, \"first_message_seconds\": %.6f}\n",
           (long long)sum.received, (long long)sum.damaged, (long long)sum.repeated,
           (long long)sum.out_of_order, (double)(ended_ns - started_ns) / 1e9,
           (double)(first_ns - started_ns) / 1e9);
}
