/* Streams and sets of channels in C: conversations between two processes, in every mode, as bytes, as memory of a pool and as
 * files, and one thread that waits for several channels.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define LINES 20
#define FILE_BYTES 100000

struct reference {
    size_t length;
    unsigned char bytes[512];
};

/* What the parent tells the child over a pipe. */
struct start {
    struct reference pool, stream;
};

static umbra_stream streams(uint32_t mode, const umbra_pool *pools, size_t count)
{
    struct umbra_stream_options options;
    umbra_stream stream;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.mode = mode;
    options.tasks = 1;
    must(umbra_stream_create(&options, pools, count, &stream));
    return stream;
}

static umbra_sender sender_of(umbra_stream stream, umbra_supplied supplied, uint32_t buffered)
{
    struct umbra_sender_options options;
    umbra_sender sender;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.supplied = supplied;
    options.buffered = buffered;
    options.arg = 5;
    must(umbra_sender_open(stream, &options, PATIENCE_MS, &sender));
    return sender;
}

static umbra_receiver receiver_of(umbra_stream stream, umbra_supplied supplied)
{
    struct umbra_receiver_options options;
    umbra_receiver receiver;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.supplied = supplied;
    must(umbra_receiver_open(stream, &options, PATIENCE_MS, &receiver));
    return receiver;
}

/* Answers each conversation by one with the same lines, turned round; the last one as memory, in place. */
static int child(int from_parent)
{
    struct start start;
    umbra_pool pool;
    umbra_stream stream;
    int talk;
    doing = "the child";
    CHECK(read(from_parent, &start, sizeof start) == (ssize_t)sizeof start);
    must(umbra_pool_attach_reference(start.pool.bytes, start.pool.length, &pool));
    must(umbra_stream_attach_reference(start.stream.bytes, start.stream.length, &pool, 1, &stream));
    for (talk = 0; talk < 2; talk++) {
        umbra_receiver receiver = receiver_of(stream, 0);
        struct umbra_received received;
        size_t length = 0;
        uint64_t arg = 0, i;
        char line[64];
        int code;
        /* The other conversation, and its answer, are one after the other in the same adapter. */
        while ((code = umbra_receiver_receive(receiver, line, sizeof line, 0, PATIENCE_MS, &length, &arg)) == 0)
            CHECK(length == 6 && memcmp(line, "line ", 5) == 0 && line[5] == (char)('a' + arg));
        CHECK(code == -UMBRA_EENDED);
        must(umbra_receiver_close(receiver, PATIENCE_MS));
        must(umbra_stream_task_done(stream));
        if (talk == 0)
            continue;
        receiver = receiver_of(stream, 0);
        must(umbra_receiver_receive_memory(receiver, PATIENCE_MS, &received));
        CHECK(received.pool == pool && received.length == 6 && received.arg == 9 && received.lent == 0);
        for (i = 0; i < 3; i++) {
            char *text = received.address, kept = text[i];
            text[i] = text[5 - i];
            text[5 - i] = kept;
        }
        must(umbra_stream_task_done(stream));
        must(umbra_receiver_close(receiver, PATIENCE_MS));
    }
    must(umbra_stream_detach(stream));
    must(umbra_pool_detach(pool));
    return 0;
}

/* The parent's side of that. */
static void with_the_child(umbra_stream stream, umbra_pool pool)
{
    umbra_allocation allocation;
    void *address;
    int talk;
    doing = "conversations with a child";
    for (talk = 0; talk < 3; talk++)
        must(umbra_stream_new_task(stream));
    for (talk = 0; talk < 2; talk++) {
        umbra_sender sender = sender_of(stream, 0, 0);
        uint64_t i;
        for (i = 0; i < LINES; i++) {
            char line[7] = "line x";
            line[5] = (char)('a' + i);
            must(umbra_sender_send(sender, line, 6, i, PATIENCE_MS));
        }
        must(umbra_sender_close(sender, PATIENCE_MS));
    }
    {
        umbra_sender sender = sender_of(stream, 0, 0);
        must(umbra_pool_alloc(pool, 6, 1, 0, &allocation, &address));
        memcpy(address, "abcdef", 6);
        must(umbra_sender_send_memory(sender, pool, allocation, 0, 9, PATIENCE_MS));
        must(umbra_sender_close(sender, PATIENCE_MS));
    }
    must(umbra_stream_join_tasks(stream, UMBRA_WAIT_IDLE, PATIENCE_MS));
    CHECK(memcmp(address, "fedcba", 6) == 0);
    must(umbra_allocation_free(pool, allocation));
}

/* In every mode, within this process: reads of all sizes, the end again and again, what was kept, and whole messages. */
static void modes(void)
{
    static const char text[] = "a text of some length, said in parts, read in others";
    uint32_t mode;
    for (mode = UMBRA_STREAM_NOMINAL; mode <= UMBRA_STREAM_SINGLE; mode++) {
        umbra_stream stream = streams(mode, NULL, 0);
        umbra_supplied supplied = 0;
        umbra_sender sender;
        umbra_receiver receiver = 0;
        char pad[sizeof text], back[sizeof text];
        const void *message = NULL;
        size_t done = 0, length = 0, step;
        uint64_t arg = 0;
        int ended = 1;
        doing = "modes";
        if (mode == UMBRA_STREAM_SENDER_SUPPLIED || mode == UMBRA_STREAM_RECEIVER_SUPPLIED)
            must(umbra_stream_supply(stream, &supplied));
        else
            CHECK(umbra_stream_supply(stream, &supplied) == -UMBRA_EINVAL && supplied == 0);
        if (mode == UMBRA_STREAM_RECEIVER_SUPPLIED)
            receiver = receiver_of(stream, supplied);
        sender = sender_of(stream, mode == UMBRA_STREAM_SENDER_SUPPLIED ? supplied : 0, 0);
        must(umbra_sender_keep(sender, text, 4, 77));
        CHECK(umbra_sender_take_kept(sender, back, 3, &length, &arg) == -UMBRA_ESIZE && length == 4 && arg == 0);
        must(umbra_sender_take_kept(sender, back, sizeof back, &length, &arg));
        CHECK(length == 4 && arg == 77 && memcmp(back, text, 4) == 0);
        for (step = 1; done < sizeof text; done += step, step++) {
            step = step < sizeof text - done ? step : sizeof text - done;
            must(umbra_sender_keep(sender, text + done, step, 40 + done));
        }
        must(umbra_sender_close(sender, PATIENCE_MS));
        CHECK(umbra_sender_close(sender, PATIENCE_MS) == -UMBRA_ESTALE);
        if (receiver == 0)
            receiver = receiver_of(stream, 0);
        must(umbra_receiver_receive(receiver, pad, 0, 0, 0, &length, &arg));
        CHECK(length == 0);
        must(umbra_receiver_receive(receiver, pad, 1, 0, PATIENCE_MS, &length, &arg));
        CHECK(length == 1 && arg == 40);
        must(umbra_receiver_receive(receiver, pad + 1, 5, 1, PATIENCE_MS, &length, &arg));
        CHECK(length == 5);
        must(umbra_receiver_has_ended(receiver, &ended));
        CHECK(ended == 0);
        length = sizeof text - 6;
        CHECK(umbra_receiver_receive_whole(receiver, NULL, length, PATIENCE_MS, &step, &arg) == -UMBRA_EINVAL);
        CHECK(umbra_receiver_receive_whole(receiver, back, length - 1, 0, &step, &arg) == -UMBRA_ESIZE && step == length);
        must(umbra_receiver_has_ended(receiver, &ended));
        CHECK(ended == 0);
        if (mode % 2 == 0) {
            must(umbra_receiver_receive_whole(receiver, back, length, 0, &length, &arg));
            message = back;
        } else
            must(umbra_receiver_receive_message(receiver, 0, &message, &length, &arg));
        CHECK(length == sizeof text - 6 && arg == 40);
        memcpy(pad + 6, message, length);
        CHECK(memcmp(pad, text, sizeof text) == 0);
        CHECK(umbra_receiver_receive(receiver, pad, 1, 0, 0, &length, &arg) == -UMBRA_EENDED);
        CHECK(umbra_receiver_receive(receiver, pad, 9, 1, PATIENCE_MS, &length, &arg) == -UMBRA_EENDED);
        must(umbra_receiver_has_ended(receiver, &ended));
        CHECK(ended == 1);
        must(umbra_receiver_close(receiver, PATIENCE_MS));
        if (supplied != 0)
            must(umbra_supplied_release(supplied));
        must(umbra_stream_destroy(stream));
        must(umbra_stream_detach(stream));
    }
}

/* Writes to a file what is more than it has room for. */
static void *fill(void *descriptor)
{
    char out[1000];
    long sent = 0;
    ssize_t length = 1;
    memset(out, 'o', sizeof out);
    while (sent < FILE_BYTES && length > 0) {
        length = write(*(int *)descriptor, out, sizeof out);
        sent += length;
    }
    return sent == FILE_BYTES ? descriptor : NULL;
}

/* A file at either end, in one process. */
static void files(void)
{
    umbra_stream stream = streams(UMBRA_STREAM_NOMINAL, NULL, 0);
    umbra_sender sender = sender_of(stream, 0, 0);
    umbra_receiver receiver = receiver_of(stream, 0);
    char in[4096];
    int write_to, read_from;
    long got = 0;
    ssize_t length;
    pthread_t writer;
    void *wrote = NULL;
    doing = "files";
    CHECK(umbra_sender_open_file(sender, SIZE_MAX, &write_to) == -UMBRA_EINVAL);
    must(umbra_sender_open_file(sender, 700, &write_to));
    CHECK(umbra_sender_open_file(sender, 0, &read_from) == -UMBRA_EINUSE);
    CHECK(umbra_sender_send(sender, "x", 1, 0, 0) == -UMBRA_EINUSE);
    CHECK(umbra_sender_close(sender, 0) == -UMBRA_EINUSE);
    CHECK(umbra_receiver_finish_file(receiver, 0) == -UMBRA_EINVAL);
    must(umbra_receiver_open_file(receiver, 0, &read_from));
    CHECK(pthread_create(&writer, NULL, fill, &write_to) == 0);
    CHECK(umbra_sender_finish_file(sender, 0) == -UMBRA_ETIMEOUT);
    while (got < FILE_BYTES && (length = read(read_from, in, sizeof in)) > 0)
        got += length;
    CHECK(got == FILE_BYTES);
    CHECK(pthread_join(writer, &wrote) == 0 && wrote == &write_to);
    close(write_to);
    must(umbra_sender_finish_file(sender, PATIENCE_MS));
    must(umbra_sender_send(sender, "and more", 8, 0, PATIENCE_MS));
    must(umbra_sender_close(sender, PATIENCE_MS));
    CHECK(read(read_from, in, sizeof in) == 8 && memcmp(in, "and more", 8) == 0);
    CHECK(read(read_from, in, sizeof in) == 0);
    close(read_from);
    must(umbra_receiver_finish_file(receiver, PATIENCE_MS));
    must(umbra_receiver_close(receiver, PATIENCE_MS));
    must(umbra_stream_detach(stream));
}

/* Whoever closes the descriptor of a receiver has the receiver back, whether the sender says anything or not, and lives on. */
static void files_that_nobody_reads(void)
{
    umbra_stream stream = streams(UMBRA_STREAM_NOMINAL, NULL, 0);
    umbra_sender sender = sender_of(stream, 0, 0);
    umbra_receiver receiver = receiver_of(stream, 0);
    int says, read_from;
    doing = "files that nobody reads";
    for (says = 0; says < 2; says++) {
        must(umbra_receiver_open_file(receiver, 0, &read_from));
        close(read_from);
        if (says)
            must(umbra_sender_send(sender, "for nobody", 10, 0, PATIENCE_MS));
        CHECK(umbra_receiver_finish_file(receiver, PATIENCE_MS) != -UMBRA_ETIMEOUT);
    }
    must(umbra_sender_close(sender, PATIENCE_MS));
    must(umbra_receiver_close(receiver, PATIENCE_MS));
    must(umbra_stream_detach(stream));
}

/* What is written to the descriptor of a conversation of one message is that message, in however many pieces. */
static void file_of_one_message(void)
{
    umbra_stream stream = streams(UMBRA_STREAM_BUFFERED, NULL, 0);
    umbra_sender sender = sender_of(stream, 0, 0);
    umbra_receiver receiver;
    char message[16];
    size_t length = 0;
    int write_to;
    doing = "a file of one message";
    must(umbra_sender_open_file(sender, 2, &write_to));
    CHECK(write(write_to, "in pieces", 9) == 9);
    close(write_to);
    must(umbra_sender_finish_file(sender, PATIENCE_MS));
    must(umbra_sender_close(sender, PATIENCE_MS));
    receiver = receiver_of(stream, 0);
    must(umbra_receiver_receive(receiver, message, sizeof message, 0, PATIENCE_MS, &length, NULL));
    CHECK(length == 9 && memcmp(message, "in pieces", 9) == 0);
    must(umbra_receiver_close(receiver, PATIENCE_MS));
    must(umbra_stream_detach(stream));
}

/* Endings before the end, and what is refused. */
static void refusals(umbra_pool pool)
{
    struct umbra_stream_options options;
    struct umbra_sender_options opened;
    struct umbra_receiver_options met;
    struct umbra_stream_statistics statistics;
    struct umbra_received received;
    umbra_stream stream = streams(UMBRA_STREAM_NOMINAL, &pool, 1), other = 0;
    umbra_sender sender, none = 0;
    umbra_receiver receiver;
    umbra_allocation allocation;
    struct reference reference;
    size_t length = 0;
    uint64_t arg = 0;
    char pad[16];
    void *address;
    umbra_pool twice[2];
    int code = 0, i;

    doing = "refusals";
    memset(&options, 0, sizeof options);
    CHECK(umbra_stream_create(&options, NULL, 0, &other) == -UMBRA_ESTRUCT);
    options.size = sizeof options;
    options.mode = 9;
    CHECK(umbra_stream_create(&options, NULL, 0, &other) == -UMBRA_EINVAL);
    options.mode = UMBRA_STREAM_NOMINAL;
    twice[0] = twice[1] = pool;
    CHECK(umbra_stream_create(&options, twice, 2, &other) == -UMBRA_EINVAL);
    twice[1] = stream;
    CHECK(umbra_stream_create(&options, twice, 2, &other) == -UMBRA_EKIND);
    twice[1] = 12345;
    CHECK(umbra_stream_create(&options, twice, 2, &other) == -UMBRA_ESTALE && other == 0);
    must(umbra_stream_create(&options, NULL, 0, &other));
    CHECK(umbra_stream_new_task(other) == -UMBRA_EKIND);
    must(umbra_stream_detach(other));
    CHECK(umbra_stream_detach(other) == -UMBRA_ESTALE);
    CHECK(umbra_stream_task_done(stream) == -UMBRA_EINVAL);

    must(umbra_stream_reference(stream, reference.bytes, sizeof reference.bytes, &reference.length));
    reference.bytes[40] ^= 4;
    CHECK(umbra_stream_attach_reference(reference.bytes, reference.length, NULL, 0, &other) == -UMBRA_EINVAL);
    CHECK(umbra_stream_attach_reference(reference.bytes, 3, NULL, 0, &other) == -UMBRA_EINVAL);

    memset(&met, 0, sizeof met);
    met.size = sizeof met;
    CHECK(umbra_receiver_open(stream, &met, 0, &receiver) == -UMBRA_EEMPTY);
    CHECK(umbra_receiver_open(stream, &met, 5, &receiver) == -UMBRA_ETIMEOUT);
    met.wait_mode = 7;
    CHECK(umbra_receiver_open(stream, &met, 0, &receiver) == -UMBRA_EINVAL);
    memset(&opened, 0, sizeof opened);
    opened.size = sizeof opened;
    opened.arg = UMBRA_ARG_RESERVED;
    CHECK(umbra_sender_open(stream, &opened, 0, &none) == -UMBRA_EINVAL && none == 0);
    opened.arg = 0;
    opened.supplied = stream;
    CHECK(umbra_sender_open(stream, &opened, 0, &none) == -UMBRA_EKIND);
    opened.supplied = 0;
    opened.pool = stream;
    CHECK(umbra_sender_open(stream, &opened, 0, &none) == -UMBRA_EKIND);
    opened.pool = 0;
    CHECK(umbra_sender_open(stream, &opened, 0, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_sender_open(pool, &opened, 0, &none) == -UMBRA_EKIND);

    /* A receiver who may go hears no more than he wants. */
    opened.may_be_cut = 1;
    must(umbra_sender_open(stream, &opened, 0, &sender));
    statistics.size = sizeof statistics;
    must(umbra_stream_statistics(stream, &statistics));
    CHECK(statistics.idle == 7 && statistics.waiting == 1);
    CHECK(umbra_sender_send(sender, "x", 1, UMBRA_ARG_RESERVED, 0) == -UMBRA_EINVAL);
    CHECK(umbra_sender_send(sender, NULL, 1, 0, 0) == -UMBRA_EINVAL);
    must(umbra_sender_send(sender, "0123456789abcdef!", 17, UMBRA_ARG_RESERVED - 1, 0));
    receiver = receiver_of(stream, 0);
    CHECK(umbra_receiver_receive(receiver, pad, 16, 0, 0, NULL, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_receiver_receive(receiver, NULL, 16, 0, 0, &length, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_receiver_receive(sender, pad, 16, 0, 0, &length, NULL) == -UMBRA_EKIND);
    must(umbra_receiver_receive(receiver, pad, sizeof pad, 1, 0, &length, &arg));
    CHECK(length == 16 && arg == UMBRA_ARG_RESERVED - 1 && memcmp(pad, "0123456789abcdef", 16) == 0);
    must(umbra_receiver_close(receiver, 0));
    for (i = 0; i < 2 && code == 0; i++)
        code = umbra_sender_send(sender, "y", 1, 0, 0);
    CHECK(code == -UMBRA_EENDED);
    must(umbra_sender_close(sender, 0));

    /* Memory that nobody takes comes back to the pool. */
    opened.may_be_cut = 0;
    must(umbra_sender_open(stream, &opened, 0, &sender));
    must(umbra_pool_alloc(pool, 100, 1, 0, &allocation, &address));
    CHECK(umbra_sender_send_memory(sender, pool, allocation, 2, 0, 0) == -UMBRA_EINVAL);
    CHECK(umbra_sender_send_memory(sender, pool, allocation + 99, 0, 0, 0) == -UMBRA_ESTALE);
    must(umbra_sender_send_memory(sender, pool, allocation, 1, 3, 0));
    must(umbra_sender_send_memory(sender, pool, allocation, 0, 3, 0));
    must(umbra_sender_close(sender, 0));
    receiver = receiver_of(stream, 0);
    must(umbra_receiver_receive_memory(receiver, 0, &received));
    CHECK(received.lent == 1 && received.allocation == allocation && received.address == address);
    must(umbra_receiver_close(receiver, PATIENCE_MS));
    CHECK(umbra_allocation_free(pool, allocation) == -UMBRA_ESTALE);
    must(umbra_stream_statistics(stream, &statistics));
    CHECK(statistics.idle == 8 && statistics.waiting == 0);

    /* One message has no memory, and cannot be cut short. */
    sender = sender_of(stream, 0, 1);
    CHECK(umbra_sender_send_memory(sender, pool, 0, 0, 0, 0) < 0);
    must(umbra_sender_send(sender, "whole", 5, 1, 0));
    CHECK(umbra_sender_send(sender, "twice", 5, 1, 0) == -UMBRA_EINVAL);
    must(umbra_stream_destroy(stream));
    CHECK(umbra_stream_destroy(stream) == -UMBRA_EDESTROYED);
    CHECK(umbra_sender_open(stream, &opened, UMBRA_FOREVER, &none) == -UMBRA_EDESTROYED);
    must(umbra_sender_close(sender, 0));
    must(umbra_stream_reclaim(stream));
    must(umbra_stream_detach(stream));
}

static void sets(void)
{
    struct umbra_channel_options options;
    umbra_channel channels[3], wrong[1];
    umbra_channel_set set, none = 0;
    size_t index = 9, seen[3] = {0, 0, 0};
    int event = 0, i;
    doing = "sets of channels";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    for (i = 0; i < 3; i++)
        must(umbra_channel_create(&options, &channels[i]));
    wrong[0] = 77;
    CHECK(umbra_channel_set_create(wrong, 1, UMBRA_POLL_IN, &none) == -UMBRA_ESTALE);
    CHECK(umbra_channel_set_create(channels, 3, UMBRA_POLL_SIZE, &none) == -UMBRA_EINVAL);
    CHECK(umbra_channel_set_create(NULL, 3, UMBRA_POLL_IN, &none) == -UMBRA_EINVAL && none == 0);
    must(umbra_channel_set_create(channels, 3, UMBRA_POLL_IN, &set));
    CHECK(umbra_channel_set_poll(set, 0, 0, &index, &event) == -UMBRA_ETIMEOUT);
    CHECK(umbra_channel_set_poll(set, UMBRA_WAIT_IDLE, 5, &index, &event) == -UMBRA_ETIMEOUT && index == 9);
    CHECK(umbra_channel_set_poll(set, 0, 0, &index, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_channel_set_poll(channels[0], 0, 0, &index, &event) == -UMBRA_EKIND);
    /* Again and again, and in turn. */
    must(umbra_channel_send(channels[0], "a", 1, 0, 0, 0));
    must(umbra_channel_send(channels[2], "c", 1, 0, 0, 0));
    for (i = 0; i < 10; i++) {
        must(umbra_channel_set_poll(set, 0, PATIENCE_MS, &index, &event));
        CHECK(index < 3 && event == UMBRA_POLL_IN);
        seen[index]++;
    }
    CHECK(seen[0] == 5 && seen[1] == 0 && seen[2] == 5);
    must(umbra_channel_poll(channels[0], UMBRA_POLL_RESET, 0, 0, NULL));
    must(umbra_channel_poll(channels[2], UMBRA_POLL_RESET, 0, 0, NULL));
    CHECK(umbra_channel_set_poll(set, 0, 0, &index, &event) == -UMBRA_ETIMEOUT);
    must(umbra_channel_destroy(channels[1]));
    must(umbra_channel_set_poll(set, 0, PATIENCE_MS, &index, &event));
    CHECK(index == 1 && event == 0);
    for (i = 0; i < 3; i++)
        must(umbra_channel_detach(channels[i]));
    must(umbra_channel_set_poll(set, 0, PATIENCE_MS, &index, &event));
    must(umbra_channel_set_release(set));
    CHECK(umbra_channel_set_release(set) == -UMBRA_ESTALE);
}

int main(void)
{
    struct umbra_pool_options options;
    struct start start;
    umbra_pool pool;
    umbra_stream stream;
    int to_child[2], status = 1;
    pid_t pid;

    /* The child attaches for itself: it is made before there is anything. */
    CHECK(pipe(to_child) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(to_child[1]);
        return child(to_child[0]);
    }
    close(to_child[0]);

    doing = "set up";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = 1 << 20;
    options.uid = 3;
    must(umbra_pool_create(NULL, &options, &pool));
    stream = streams(UMBRA_STREAM_NOMINAL, &pool, 1);
    memset(&start, 0, sizeof start);
    must(umbra_pool_reference(pool, start.pool.bytes, sizeof start.pool.bytes, &start.pool.length));
    must(umbra_stream_reference(stream, start.stream.bytes, sizeof start.stream.bytes, &start.stream.length));
    CHECK(write(to_child[1], &start, sizeof start) == (ssize_t)sizeof start);

    with_the_child(stream, pool);
    doing = "the child's end";
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    modes();
    files();
    files_that_nobody_reads();
    file_of_one_message();
    refusals(pool);
    sets();

    doing = "the end";
    must(umbra_stream_detach(stream));
    must(umbra_pool_detach(pool));
    printf("all is right\n");
    return 0;
}
