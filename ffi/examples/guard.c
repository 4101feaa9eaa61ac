/* References in C that are cut or changed: each lies at the very end of a page before one that nobody may read, so whoever
 * read on would die. All of them are refused, and nothing is attached.
 *
 * With an argument every byte takes every value, without one it is changed once. It exits with 0 only if all of it is right.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define KINDS 4

struct reference {
    size_t length;
    unsigned char bytes[512];
};

/* Where readable memory ends. */
static unsigned char *end;
static umbra_pool home;

/* The same bytes, the last of them the last that may be read. */
static unsigned char *at_the_end(const unsigned char *bytes, size_t length)
{
    unsigned char *place = end - length;
    memcpy(place, bytes, length);
    return place;
}

/* Attaches what the bytes name as one kind of object; what was attached is released. */
static int attach(int kind, const unsigned char *bytes, size_t length)
{
    uint64_t made = 0, size = 0;
    void *address = NULL;
    int code = 0;
    switch (kind) {
    case 0:
        code = umbra_pool_attach_reference(bytes, length, &made);
        if (code == 0)
            must(umbra_pool_detach(made));
        break;
    case 1:
        code = umbra_allocation_find(home, bytes, length, &made, &address, &size);
        CHECK((code == 0) == (address != NULL && size == 100));
        break;
    case 2:
        code = umbra_channel_attach_reference(bytes, length, &made);
        if (code == 0)
            must(umbra_channel_detach(made));
        break;
    default:
        code = umbra_stream_attach_reference(bytes, length, NULL, 0, &made);
        if (code == 0)
            must(umbra_stream_detach(made));
    }
    CHECK((code == 0) == (made != 0));
    return code;
}

static void refused(const unsigned char *bytes, size_t length)
{
    int kind;
    for (kind = 0; kind < KINDS; kind++) {
        int code = attach(kind, bytes, length);
        CHECK(code == -UMBRA_EINVAL || code == -UMBRA_EVERSION);
    }
}

static void cut_and_changed(const struct reference *whole, unsigned step)
{
    size_t length, at;
    doing = "cut references";
    for (length = 0; length < whole->length; length++)
        refused(at_the_end(whole->bytes, length), length);
    doing = "changed references";
    for (at = 0; at < whole->length; at++) {
        unsigned char *place = at_the_end(whole->bytes, whole->length), right = place[at];
        unsigned change;
        for (change = 1; change < 256; change += step) {
            place[at] = (unsigned char)(right ^ change);
            refused(place, whole->length);
        }
    }
}

int main(int count, char **arguments)
{
    struct umbra_pool_options pools;
    struct umbra_channel_options channels;
    struct umbra_stream_options streams;
    struct reference whole[KINDS];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    umbra_allocation allocation;
    umbra_channel channel;
    umbra_stream stream;
    void *address = NULL;
    unsigned char *pages;
    int kind;
    (void)arguments;

    doing = "set up";
    pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    end = pages + page;
    memset(&pools, 0, sizeof pools);
    pools.size = sizeof pools;
    pools.bytes = 1 << 20;
    must(umbra_uid_draw(&pools.uid));
    must(umbra_pool_create(NULL, &pools, &home));
    must(umbra_pool_alloc(home, 100, 0, 0, &allocation, &address));
    memset(&channels, 0, sizeof channels);
    channels.size = sizeof channels;
    must(umbra_channel_create(&channels, &channel));
    memset(&streams, 0, sizeof streams);
    streams.size = sizeof streams;
    must(umbra_stream_create(&streams, NULL, 0, &stream));
    must(umbra_pool_reference(home, whole[0].bytes, sizeof whole[0].bytes, &whole[0].length));
    must(umbra_allocation_reference(home, allocation, whole[1].bytes, sizeof whole[1].bytes, &whole[1].length));
    must(umbra_channel_reference(channel, whole[2].bytes, sizeof whole[2].bytes, &whole[2].length));
    must(umbra_stream_reference(stream, whole[3].bytes, sizeof whole[3].bytes, &whole[3].length));

    doing = "whole references";
    for (kind = 0; kind < KINDS; kind++)
        must(attach(kind, at_the_end(whole[kind].bytes, whole[kind].length), whole[kind].length));
    for (kind = 0; kind < KINDS; kind++)
        cut_and_changed(&whole[kind], count > 1 ? 1 : 255);

    doing = "the end";
    must(umbra_stream_detach(stream));
    must(umbra_channel_detach(channel));
    must(umbra_pool_detach(home));
    CHECK(munmap(pages, 2 * page) == 0);
    printf("all is right\n");
    return 0;
}
