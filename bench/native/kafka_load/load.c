/* A Kafka load generator on librdkafka: every mode prints one line of JSON.
 *
 *   load MODE --brokers HOST:PORT --topic NAME ...     (modes are listed in MODES below)
 *
 * The same binary runs against every broker, so that the client is never the difference. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "load.h"

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_until_ns(uint64_t due_ns)
{
    struct timespec due = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)};
    if (now_ns() < due_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void print_percentiles(const char *name, uint64_t *samples_ns, int64_t count)
{
    static const struct {
        const char *name;
        double share;
    } points[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}};
    qsort(samples_ns, (size_t)count, sizeof *samples_ns, ascending);
    printf("\"%s\": {", name);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        int64_t at = (int64_t)((double)count * points[i].share);
        printf("%s\"%s\": %.3f", i ? ", " : "", points[i].name,
               (double)samples_ns[at < count ? at : count - 1] / 1e6);
    }
    printf("}");
}

static const struct option LONG_OPTIONS[] = {
    {"brokers", required_argument, NULL, 'b'},  {"topic", required_argument, NULL, 't'},
    {"partitions", required_argument, NULL, 'p'}, {"count", required_argument, NULL, 'n'},
    {"size", required_argument, NULL, 's'},     {"rate", required_argument, NULL, 'r'},
    {"seconds", required_argument, NULL, 'd'},  {"warmup-seconds", required_argument, NULL, 'w'},
    {"timeout", required_argument, NULL, 'T'},  {"set", required_argument, NULL, 'X'},
    {"clients", required_argument, NULL, 'c'},  {"writers", required_argument, NULL, 'W'},
    {"transaction", required_argument, NULL, 'x'},
    {NULL, 0, NULL, 0},
};

static void read_option(struct options *options, int letter)
{
    switch (letter) {
    case 'b': options->brokers = optarg; break;
    case 't': options->topic = optarg; break;
    case 'p': options->partitions = atoi(optarg); break;
    case 'c': options->clients = atoi(optarg); break;
    case 'W': options->writers = atoi(optarg); break;
    case 'x': options->transaction_messages = atoi(optarg); break;
    case 'n': options->count = atoll(optarg); break;
    case 's': options->size_bytes = atoi(optarg); break;
    case 'r': options->rate_per_s = atoi(optarg); break;
    case 'd': options->seconds = atoi(optarg); break;
    case 'w': options->warmup_seconds = atoi(optarg); break;
    case 'T': options->timeout_s = atoi(optarg); break;
    case 'X':
        if (options->setting_count == MAX_SETTINGS)
            die("arguments", "too many settings");
        options->settings[options->setting_count++] = optarg;
        break;
    default: die("arguments", "see the comment at the top of load.c");
    }
}

static const struct {
    const char *name;
    void (*run)(const struct options *options);
} MODES[] = {
    {"produce", run_produce},
    {"consume", run_consume},
    {"requests", run_requests},
    {"transactions", run_transactions},
    {"publish-latency", run_publish_latency},
    {"end-to-end", run_end_to_end},
};

int main(int argc, char **argv)
{
    struct options options = {.partitions = 1, .clients = 1, .writers = 1, .count = 1000000, .size_bytes = 100,
                              .rate_per_s = 10000, .seconds = 10, .warmup_seconds = 2,
                              .timeout_s = 120};
    int letter;
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        printf("{\"librdkafka\": \"%s\"}\n", rd_kafka_version_str());
        return 0;
    }
    while ((letter = getopt_long(argc, argv, "", LONG_OPTIONS, NULL)) != -1)
        read_option(&options, letter);
    if (optind != argc - 1 || options.brokers == NULL || options.topic == NULL ||
        options.partitions < 1 || options.clients < 1 || options.writers < 1 || options.count < 1 || options.rate_per_s < 1 ||
        options.size_bytes < PAYLOAD_HEADER_BYTES || options.size_bytes > MAX_PAYLOAD_BYTES)
        die("arguments", "one mode, --brokers, --topic and sizes above zero are needed");
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++)
        if (strcmp(MODES[i].name, argv[optind]) == 0) {
            MODES[i].run(&options);
            return 0;
        }
    die("unknown mode", argv[optind]);
}
