/* Transactions of a few messages, one after another: a commit is waited for before the next begins. */
#include <stdio.h>
#include <stdlib.h>

#include "load.h"

enum { COORDINATOR_WAIT_MS = 60000 };

static void check(const char *what, const rd_kafka_error_t *error)
{
    if (error != NULL)
        die(what, rd_kafka_error_string(error));
}

void run_transactions(const struct options *options)
{
    struct deliveries deliveries = {0};
    struct payloads payloads = payloads_new(options->size_bytes);
    char *message = malloc((size_t)options->size_bytes);
    rd_kafka_t *producer = producer_new(options, &deliveries);
    rd_kafka_topic_t *topic = open_topic(producer, options);
    uint64_t give_up_ns = now_ns() + (uint64_t)options->timeout_s * 1000000000u;
    int in_transaction = options->transaction_messages;

    if (in_transaction < 1)
        die("arguments", "--transaction is needed");
    /* Before the clock starts: the first call waits for the coordinator's topic to be made. */
    check("init transactions", rd_kafka_init_transactions(producer, COORDINATOR_WAIT_MS));
    uint64_t started_ns = now_ns();
    for (int64_t sequence = 0; sequence < options->count; sequence++) {
        if (sequence % in_transaction == 0)
            check("begin", rd_kafka_begin_transaction(producer));
        payload_write(&payloads, (uint64_t)sequence, 0, message);
        if (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, message,
                             (size_t)options->size_bytes, NULL, 0, NULL) == -1)
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        if (sequence % in_transaction == in_transaction - 1 || sequence == options->count - 1)
            check("commit", rd_kafka_commit_transaction(producer, COORDINATOR_WAIT_MS));
        if (now_ns() > give_up_ns)
            die("transactions", "out of time");
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
