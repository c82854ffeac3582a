#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

enum { POLL_MS = 20, CONSUME_BATCH_MESSAGES = 1000 };

/* An open loop: message n is due at start + n / rate whatever happened to those before it, and
 * its latency counts from when it was due, so that a stall shows in full. */
struct schedule {
    int64_t count;
    int64_t warmup; /* messages at the start that are sent but not measured */
    uint64_t *due_ns;
    uint64_t worst_lag_ns; /* how late the generator itself was */
};

struct publisher {
    const struct options *options;
    struct schedule schedule;
    struct deliveries deliveries;
    rd_kafka_t *producer;
    rd_kafka_topic_t *topic;
    pthread_t poller;
};

static void *poll_deliveries(void *argument)
{
    struct publisher *publisher = argument;
    while (publisher->deliveries.done < publisher->schedule.count)
        rd_kafka_poll(publisher->producer, POLL_MS);
    return NULL;
}

static void publisher_open(struct publisher *publisher, const struct options *options)
{
    int64_t warmup = (int64_t)options->rate_per_s * options->warmup_seconds;
    int64_t count = warmup + (int64_t)options->rate_per_s * options->seconds;
    publisher->options = options;
    publisher->schedule = (struct schedule){.count = count, .warmup = warmup};
    publisher->schedule.due_ns = calloc((size_t)count, sizeof(uint64_t));
    publisher->deliveries.latency_ns = calloc((size_t)count, sizeof(uint64_t));
    publisher->deliveries.due_ns = publisher->schedule.due_ns;
    if (publisher->schedule.due_ns == NULL || publisher->deliveries.latency_ns == NULL)
        die("latency", "out of memory");
    publisher->producer = producer_new(options, &publisher->deliveries);
    publisher->topic = rd_kafka_topic_new(publisher->producer, options->topic, NULL);
}

static void publish_on_schedule(struct publisher *publisher)
{
    const struct options *options = publisher->options;
    struct schedule *schedule = &publisher->schedule;
    struct payloads payloads = payloads_new(options->size_bytes);
    char *message = malloc((size_t)options->size_bytes);
    uint64_t start_ns = now_ns() + 50000000u;

    for (int64_t n = 0; n < schedule->count; n++)
        schedule->due_ns[n] = start_ns + (uint64_t)n * 1000000000u / (uint64_t)options->rate_per_s;
    if (pthread_create(&publisher->poller, NULL, poll_deliveries, publisher) != 0)
        die("latency", "no thread");
    for (int64_t n = 0; n < schedule->count; n++) {
        sleep_until_ns(schedule->due_ns[n]);
        uint64_t lag_ns = now_ns() - schedule->due_ns[n];
        if (n >= schedule->warmup && lag_ns > schedule->worst_lag_ns)
            schedule->worst_lag_ns = lag_ns;
        payload_write(&payloads, (uint64_t)n, schedule->due_ns[n], message);
        while (rd_kafka_produce(publisher->topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY,
                                message, (size_t)options->size_bytes, NULL, 0,
                                (void *)(size_t)n) == -1) {
            if (rd_kafka_last_error() != RD_KAFKA_ERR_QUEUE_FULL)
                die("produce", rd_kafka_err2str(rd_kafka_last_error()));
            sleep_until_ns(now_ns() + 1000000u);
        }
    }
    free(message);
    free(payloads.pool);
}

static void publisher_close(struct publisher *publisher)
{
    pthread_join(publisher->poller, NULL);
    rd_kafka_topic_destroy(publisher->topic);
    rd_kafka_destroy(publisher->producer);
}

static void print_result(struct publisher *publisher, const char *name, uint64_t *latency_ns)
{
    struct schedule *schedule = &publisher->schedule;
    printf("{\"messages\": %lld, \"failed\": %lld, \"generator_lag_max_ms\": %.3f, ",
           (long long)(schedule->count - schedule->warmup),
           (long long)publisher->deliveries.failed, (double)schedule->worst_lag_ns / 1e6);
    print_percentiles(name, latency_ns + schedule->warmup, schedule->count - schedule->warmup);
    printf("}\n");
}

void run_publish_latency(const struct options *options)
{
    struct publisher publisher = {0};
    publisher_open(&publisher, options);
    publish_on_schedule(&publisher);
    publisher_close(&publisher);
    print_result(&publisher, "latency_ms", publisher.deliveries.latency_ns);
}

struct receiver {
    const struct options *options;
    struct payloads payloads;
    int64_t count;
    uint64_t *latency_ns; /* by sequence number */
};

static void *receive_all(void *argument)
{
    struct receiver *receiver = argument;
    rd_kafka_message_t *batch[CONSUME_BATCH_MESSAGES];
    rd_kafka_t *consumer = consumer_new(receiver->options);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, receiver->options->topic, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
    uint64_t give_up_ns = now_ns() + (uint64_t)receiver->options->timeout_s * 1000000000u;
    int64_t received = 0;

    for (int partition = 0; partition < receiver->options->partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, partition, 0, queue) == -1)
            die("consume", rd_kafka_err2str(rd_kafka_last_error()));
    while (received < receiver->count) {
        /* One message at a time: waiting to fill a batch would add to the latency. */
        ssize_t got = rd_kafka_consume_batch_queue(queue, POLL_MS, batch, 1);
        uint64_t seen_ns = now_ns();
        for (ssize_t i = 0; i < got; i++) {
            uint64_t sequence, sent_ns;
            if (batch[i]->err == 0) {
                if (payload_check(&receiver->payloads, batch[i]->payload, batch[i]->len,
                                  &sequence) != 0 ||
                    sequence >= (uint64_t)receiver->count)
                    die("consume", "a message is not as it was written");
                memcpy(&sent_ns, (char *)batch[i]->payload + STAMP_AT, sizeof sent_ns);
                receiver->latency_ns[sequence] = seen_ns - sent_ns;
                received++;
            }
            rd_kafka_message_destroy(batch[i]);
        }
        if (seen_ns > give_up_ns)
            die("consume", "out of time");
    }
    for (int partition = 0; partition < receiver->options->partitions; partition++)
        rd_kafka_consume_stop(topic, partition);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(consumer);
    return NULL;
}

void run_end_to_end(const struct options *options)
{
    struct publisher publisher = {0};
    struct receiver receiver = {.options = options};
    pthread_t thread;
    publisher_open(&publisher, options);
    receiver.count = publisher.schedule.count;
    receiver.payloads = payloads_new(options->size_bytes);
    receiver.latency_ns = calloc((size_t)receiver.count, sizeof(uint64_t));
    if (receiver.latency_ns == NULL || pthread_create(&thread, NULL, receive_all, &receiver) != 0)
        die("end-to-end", "no memory or no thread");
    publish_on_schedule(&publisher);
    pthread_join(thread, NULL);
    publisher_close(&publisher);
    print_result(&publisher, "latency_ms", receiver.latency_ns);
}
