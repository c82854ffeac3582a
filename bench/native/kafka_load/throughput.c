#include <stdio.h>
#include <stdlib.h>

#include "load.h"

enum { POLL_EVERY_MESSAGES = 1000, CONSUME_BATCH_MESSAGES = 1000, POLL_MS = 100 };

static rd_kafka_topic_t *open_topic(rd_kafka_t *client, const struct options *options)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
    if (topic == NULL)
        die("topic", rd_kafka_err2str(rd_kafka_last_error()));
    return topic;
}

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

/* What the reader found, message by message. */
struct tally {
    int64_t received;
    int64_t damaged;
    int64_t repeated;
    int64_t out_of_order;
    unsigned char *seen;    /* one bit for each sequence number */
    int64_t *next_offset;   /* by partition */
    int64_t *last_sequence; /* by partition; one producer wrote, so it only grows */
};

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
    if (message->offset != tally->next_offset[message->partition] ||
        (int64_t)sequence <= tally->last_sequence[message->partition])
        tally->out_of_order++;
    tally->next_offset[message->partition] = message->offset + 1;
    tally->last_sequence[message->partition] = (int64_t)sequence;
}

static struct tally tally_new(const struct options *options)
{
    struct tally tally = {0};
    tally.seen = calloc((size_t)options->count / 8 + 1, 1);
    tally.next_offset = calloc((size_t)options->partitions, sizeof *tally.next_offset);
    tally.last_sequence = malloc((size_t)options->partitions * sizeof *tally.last_sequence);
    if (tally.seen == NULL || tally.next_offset == NULL || tally.last_sequence == NULL)
        die("consume", "out of memory");
    for (int partition = 0; partition < options->partitions; partition++)
        tally.last_sequence[partition] = -1;
    return tally;
}

void run_consume(const struct options *options)
{
    struct payloads payloads = payloads_new(options->size_bytes);
    struct tally tally = tally_new(options);
    rd_kafka_message_t *batch[CONSUME_BATCH_MESSAGES];
    rd_kafka_t *consumer = consumer_new(options);
    rd_kafka_topic_t *topic = open_topic(consumer, options);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
    uint64_t started_ns = now_ns(), first_ns = 0;
    uint64_t give_up_ns = started_ns + (uint64_t)options->timeout_s * 1000000000u;

    for (int partition = 0; partition < options->partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, partition, 0, queue) == -1)
            die("consume", rd_kafka_err2str(rd_kafka_last_error()));
    while (tally.received < options->count) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, POLL_MS, batch, CONSUME_BATCH_MESSAGES);
        if (got > 0 && first_ns == 0)
            first_ns = now_ns();
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err == 0)
                note(&tally, options, &payloads, batch[i]);
            else if (batch[i]->err != RD_KAFKA_ERR_PARTITION_EOF)
                die("consume", rd_kafka_err2str(batch[i]->err));
            rd_kafka_message_destroy(batch[i]);
        }
        if (now_ns() > give_up_ns)
            die("consume", "out of time");
    }
    uint64_t ended_ns = now_ns();

    printf("{\"messages\": %lld, \"damaged\": %lld, \"repeated\": %lld, \"out_of_order\": %lld, "
           "\"seconds\": %.6f, \"first_message_seconds\": %.6f}\n",
           (long long)tally.received, (long long)tally.damaged, (long long)tally.repeated,
           (long long)tally.out_of_order, (double)(ended_ns - started_ns) / 1e9,
           (double)(first_ns - started_ns) / 1e9);
    for (int partition = 0; partition < options->partitions; partition++)
        rd_kafka_consume_stop(topic, partition);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(consumer);
}
