#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdint.h>

#include "rdkafka_api.h"

enum { MAX_SETTINGS = 32 };

struct options {
    const char *brokers;
    const char *topic;
    int partitions;
    int clients;              /* connections of `requests`, readers of `consume` */
    int writers;              /* of what is read: order is kept by each of them */
    int transaction_messages; /* in a transaction; 0: there are none */
    int64_t count;
    int size_bytes;
    int rate_per_s;
    int seconds;
    int warmup_seconds;
    int timeout_s;
    int setting_count;
    const char *settings[MAX_SETTINGS]; /* librdkafka "name=value" */
};

/* A message is its sequence number (8 bytes), a time stamp (8 bytes) and filler that follows
 * from the sequence number, so that a reader can compare every byte. */
enum { STAMP_AT = 8, PAYLOAD_HEADER_BYTES = 16, MAX_PAYLOAD_BYTES = 1 << 20 };

struct payloads {
    char *pool;
    int messages;
    int size_bytes;
};

struct payloads payloads_new(int size_bytes);
void payload_write(const struct payloads *payloads, uint64_t sequence, uint64_t stamp, char *out);
/* Returns 0 and sets *sequence when every byte is as written, -1 otherwise. */
int payload_check(const struct payloads *payloads, const void *data, size_t len,
                  uint64_t *sequence);

uint64_t now_ns(void);
void die(const char *what, const char *why);
void sleep_until_ns(uint64_t due_ns);
void print_percentiles(const char *name, uint64_t *samples_ns, int64_t count);

/* Counts of delivery reports, written by one thread (the one that polls). */
struct deliveries {
    _Atomic int64_t done;
    _Atomic int64_t failed;
    int last_error;
    uint64_t *latency_ns;      /* by message number, or NULL when latency is not asked for */
    const uint64_t *due_ns;    /* when each message was meant to be sent */
};

rd_kafka_t *producer_new(const struct options *options, struct deliveries *deliveries);
rd_kafka_t *consumer_new(const struct options *options);
rd_kafka_topic_t *open_topic(rd_kafka_t *client, const struct options *options);

void run_produce(const struct options *options);
void run_consume(const struct options *options);
void run_requests(const struct options *options);
void run_transactions(const struct options *options);
void run_publish_latency(const struct options *options);
void run_end_to_end(const struct options *options);

#endif
