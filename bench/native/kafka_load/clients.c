#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die("setting", why);
}

static rd_kafka_conf_t *configured(const struct options *options)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", options->brokers);
    for (int i = 0; i < options->setting_count; i++) {
        char name[128];
        const char *equals = strchr(options->settings[i], '=');
        if (equals == NULL || (size_t)(equals - options->settings[i]) >= sizeof name)
            die("setting must be name=value", options->settings[i]);
        memcpy(name, options->settings[i], (size_t)(equals - options->settings[i]));
        name[equals - options->settings[i]] = '\0';
        set(conf, name, equals + 1);
    }
    return conf;
}

static rd_kafka_t *client_new(int type, rd_kafka_conf_t *conf)
{
    char why[512];
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    if (client == NULL)
        die("client", why);
    return client;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    struct deliveries *deliveries = opaque;
    (void)client;
    if (message->err) {
        deliveries->failed++;
        deliveries->last_error = message->err;
    } else if (deliveries->latency_ns != NULL) {
        size_t number = (size_t)message->opaque;
        deliveries->latency_ns[number] = now_ns() - deliveries->due_ns[number];
    }
    deliveries->done++;
}

rd_kafka_t *producer_new(const struct options *options, struct deliveries *deliveries)
{
    rd_kafka_conf_t *conf = configured(options);
    rd_kafka_conf_set_opaque(conf, deliveries);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return client_new(RD_KAFKA_PRODUCER, conf);
}

rd_kafka_t *consumer_new(const struct options *options)
{
    return client_new(RD_KAFKA_CONSUMER, configured(options));
}

rd_kafka_topic_t *open_topic(rd_kafka_t *client, const struct options *options)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
    if (topic == NULL)
        die("topic", rd_kafka_err2str(rd_kafka_last_error()));
    return topic;
}
