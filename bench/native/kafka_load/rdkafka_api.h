/* The part of librdkafka's C API that the load generator calls.
 *
 * The library itself comes with the confluent-kafka wheel, which ships no headers; these
 * declarations follow its stable binary interface (librdkafka 1.0 and later). */
#ifndef BENCH_RDKAFKA_API_H
#define BENCH_RDKAFKA_API_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_CONF_OK = 0 };
enum { RD_KAFKA_MSG_F_COPY = 0x2 };

#define RD_KAFKA_PARTITION_UA ((int32_t)-1)
#define RD_KAFKA_OFFSET_BEGINNING (-2)
#define RD_KAFKA_ERR_QUEUE_FULL (-184)
#define RD_KAFKA_ERR_PARTITION_EOF (-191)

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;

const char *rd_kafka_version_str(void);
const char *rd_kafka_err2str(int err);
int rd_kafka_last_error(void);

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *errstr,
                      size_t errstr_size);
void rd_kafka_conf_set_opaque(rd_kafka_conf_t *conf, void *opaque);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *conf,
                                 void (*cb)(rd_kafka_t *rk, const rd_kafka_message_t *message,
                                            void *opaque));

rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *conf, char *errstr, size_t errstr_size);
void rd_kafka_destroy(rd_kafka_t *rk);
int rd_kafka_poll(rd_kafka_t *rk, int timeout_ms);
int rd_kafka_flush(rd_kafka_t *rk, int timeout_ms);

rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *rk, const char *topic,
                                     rd_kafka_topic_conf_t *conf);
void rd_kafka_topic_destroy(rd_kafka_topic_t *rkt);

int rd_kafka_produce(rd_kafka_topic_t *rkt, int32_t partition, int flags, void *payload,
                     size_t len, const void *key, size_t key_len, void *message_opaque);

rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *rk, int timeout_ms);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *rk);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
const char *rd_kafka_error_string(const rd_kafka_error_t *error);

rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *rk);
void rd_kafka_queue_destroy(rd_kafka_queue_t *queue);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *rkt, int32_t partition, int64_t offset,
                                 rd_kafka_queue_t *queue);
int rd_kafka_consume_stop(rd_kafka_topic_t *rkt, int32_t partition);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *queue, int timeout_ms,
                                     rd_kafka_message_t **messages, size_t size);
void rd_kafka_message_destroy(rd_kafka_message_t *message);

#endif
