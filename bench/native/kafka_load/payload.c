#include <stdlib.h>
#include <string.h>

#include "load.h"

/* Fillers in rotation: more than the largest batch holds (1 MB), so that no message comes twice in
 * what a compressor sees at once. */
enum { POOL_BYTES = 4 << 20 };

static const char TEXT[] = "{\"event\":\"order.created\",\"status\":\"accepted\",\"region\":\"north\"} ";
static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Half text that repeats, half noise of 6 bits a byte: about what JSON events compress like. */
struct payloads payloads_new(int size_bytes)
{
    struct payloads payloads = {malloc(POOL_BYTES), POOL_BYTES / size_bytes, size_bytes};
    uint64_t noise = 0x9e3779b97f4a7c15u;
    if (payloads.pool == NULL)
        die("payload", "out of memory");
    for (int message = 0; message < payloads.messages; message++) {
        char *out = payloads.pool + (size_t)message * (size_t)size_bytes;
        for (int at = 0; at < size_bytes; at++) {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            out[at] = (at / 16) % 2 ? TEXT[at % (int)(sizeof TEXT - 1)] : ALPHABET[noise & 63];
        }
    }
    return payloads;
}

static const char *filler_of(const struct payloads *payloads, uint64_t sequence)
{
    uint64_t number = sequence % (uint64_t)payloads->messages;
    return payloads->pool + (size_t)number * (size_t)payloads->size_bytes;
}

void payload_write(const struct payloads *payloads, uint64_t sequence, uint64_t stamp, char *out)
{
    const char *filler = filler_of(payloads, sequence);
    memcpy(out + PAYLOAD_HEADER_BYTES, filler + PAYLOAD_HEADER_BYTES,
           (size_t)payloads->size_bytes - PAYLOAD_HEADER_BYTES);
    memcpy(out, &sequence, sizeof sequence);
    memcpy(out + STAMP_AT, &stamp, sizeof stamp);
}

int payload_check(const struct payloads *payloads, const void *data, size_t len, uint64_t *sequence)
{
    if (len != (size_t)payloads->size_bytes)
        return -1;
    memcpy(sequence, data, sizeof *sequence);
    const char *filler = filler_of(payloads, *sequence);
    return memcmp((const char *)data + PAYLOAD_HEADER_BYTES, filler + PAYLOAD_HEADER_BYTES,
                  len - PAYLOAD_HEADER_BYTES)
               ? -1
               : 0;
}
