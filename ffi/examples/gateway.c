/* What another host has, in C: a gateway is a process of its own here, and this host stands for the other one.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define STARTERS 4
#define ROUNDS 50

struct reference {
    size_t length;
    unsigned char bytes[512];
};

static char secret[64];
static char large[100000];

/* A secret in a file of its own: 64 hexadecimal digits that only this user can read. */
static void make_secret(void)
{
    int file, i;
    snprintf(secret, sizeof secret, "/tmp/umbra-gateway-%ld", (long)getpid());
    file = open(secret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    for (i = 0; i < 4; i++) {
        uint64_t number;
        char digits[18];
        must(umbra_uid_draw(&number));
        snprintf(digits, sizeof digits, "%016" PRIx64 "%s", number, i == 3 ? "\n" : "");
        CHECK(write(file, digits, strlen(digits)) == (ssize_t)strlen(digits));
    }
    CHECK(close(file) == 0);
}

/* A process that is a gateway until the pipe is closed, or it is killed; it says at which port. */
static pid_t start_gateway(int wake[2], uint32_t *port)
{
    int told[2];
    pid_t pid;
    CHECK(pipe(wake) == 0 && pipe(told) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        umbra_gateway gateway;
        size_t lines = 9;
        char nothing;
        doing = "the gateway";
        close(wake[1]);
        must(umbra_gateway_start(secret, "127.0.0.1:0", port, &gateway));
        must(umbra_gateway_lines(gateway, &lines));
        CHECK(lines == 0);
        CHECK(write(told[1], port, sizeof *port) == (ssize_t)sizeof *port);
        CHECK(read(wake[0], &nothing, 1) == 0);
        must(umbra_gateway_end(gateway));
        CHECK(umbra_gateway_end(gateway) == -UMBRA_ESTALE);
        _exit(0);
    }
    close(wake[0]);
    CHECK(read(told[0], port, sizeof *port) == (ssize_t)sizeof *port);
    close(told[0]);
    close(told[1]);
    return pid;
}

/* A gateway at a path, in a process that is killed and leaves its socket there. */
static void killed_at(const char *path)
{
    int told[2];
    char ready = 0;
    pid_t pid;
    CHECK(pipe(told) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        umbra_gateway gateway;
        must(umbra_gateway_start(secret, path, NULL, &gateway));
        CHECK(write(told[1], &ready, 1) == 1);
        for (;;)
            pause();
    }
    CHECK(close(told[1]) == 0 && read(told[0], &ready, 1) == 1 && close(told[0]) == 0);
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(access(path, F_OK) == 0);
}

/* One of several who begin to serve at the same path at once. */
struct starter {
    const char *path;
    umbra_gateway gateway;
    int code;
    pthread_t thread;
};

static pthread_barrier_t all_there;

static void *contend(void *own)
{
    struct starter *starter = own;
    pthread_barrier_wait(&all_there);
    starter->code = umbra_gateway_start(secret, starter->path, NULL, &starter->gateway);
    return NULL;
}

/* Whether anybody listens there. */
static int is_served(const struct sockaddr_un *address)
{
    int file = socket(AF_UNIX, SOCK_STREAM, 0), connected;
    CHECK(file >= 0);
    connected = connect(file, (const struct sockaddr *)address, sizeof *address);
    CHECK(close(file) == 0);
    return connected == 0;
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

/* Nobody waits for one who listens there and accepts nobody, nor at a pipe in the place of the lock. */
static void hangs_for_nobody(const char *path, const char *lock)
{
    struct sockaddr_un address = address_of(path);
    umbra_gateway other = 0;
    int deaf = socket(AF_UNIX, SOCK_STREAM, 0), waiting[16], count = 0;
    CHECK(deaf >= 0 && bind(deaf, (struct sockaddr *)&address, sizeof address) == 0 && listen(deaf, 0) == 0);
    do {
        CHECK(count < 16);
        waiting[count] = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(waiting[count] >= 0 && fcntl(waiting[count], F_SETFL, O_NONBLOCK) == 0);
    } while (connect(waiting[count++], (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(errno == EAGAIN);
    CHECK(umbra_gateway_start(secret, path, NULL, &other) == -UMBRA_EINUSE && other == 0);
    while (count > 0)
        CHECK(close(waiting[--count]) == 0);
    CHECK(close(deaf) == 0);
    CHECK(mkfifo(lock, 0600) == 0 && umbra_gateway_start(secret, path, NULL, &other) == -UMBRA_ESYSTEM && other == 0);
    CHECK(unlink(lock) == 0 && unlink(path) == 0);
}

/* Of those who find a socket that was left behind at once, one serves there, and the others are told. */
static void contests(const char *path)
{
    struct starter starters[STARTERS];
    struct sockaddr_un address = address_of(path);
    int round, i, left, winner;
    CHECK(pthread_barrier_init(&all_there, NULL, STARTERS) == 0);
    for (round = 0; round < ROUNDS; round++) {
        left = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(left >= 0 && bind(left, (struct sockaddr *)&address, sizeof address) == 0 && close(left) == 0);
        for (i = 0; i < STARTERS; i++) {
            starters[i].path = path;
            CHECK(pthread_create(&starters[i].thread, NULL, contend, &starters[i]) == 0);
        }
        winner = -1;
        for (i = 0; i < STARTERS; i++) {
            CHECK(pthread_join(starters[i].thread, NULL) == 0);
            CHECK(starters[i].code == -UMBRA_EINUSE || (starters[i].code == 0 && winner == -1));
            if (starters[i].code == 0)
                winner = i;
        }
        CHECK(winner >= 0 && is_served(&address));
        must(umbra_gateway_end(starters[winner].gateway));
        CHECK(access(path, F_OK) != 0);
    }
    CHECK(pthread_barrier_destroy(&all_there) == 0);
}

/* Whoever listens at a path is alone there, and leaves nothing behind; nothing else that is there is touched. */
static void paths(void)
{
    umbra_gateway gateway, other = 0;
    char path[64], own[72], lock[80];
    int file, guard;
    doing = "paths";
    snprintf(path, sizeof path, "/tmp/umbra-gateway-%ld.socket", (long)getpid());
    snprintf(lock, sizeof lock, "/tmp/.umbra-gateway-%ld.socket.umbra-lock", (long)getpid());
    /* The lock of whoever starts gateways is his own. */
    snprintf(own, sizeof own, "%s.lock", path);
    guard = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(guard >= 0 && flock(guard, LOCK_EX) == 0);
    CHECK(symlink(own, lock) == 0 && umbra_gateway_start(secret, path, NULL, &other) == -UMBRA_ESYSTEM && other == 0);
    CHECK(unlink(lock) == 0);
    killed_at(path);
    must(umbra_gateway_start(secret, path, NULL, &gateway));
    CHECK(umbra_gateway_start(secret, path, NULL, &other) == -UMBRA_EINUSE && other == 0);
    must(umbra_gateway_end(gateway));
    CHECK(access(path, F_OK) != 0);
    CHECK(access(lock, F_OK) != 0);
    must(umbra_gateway_start(secret, path, NULL, &gateway));
    must(umbra_gateway_end(gateway));

    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(file >= 0 && close(file) == 0);
    CHECK(umbra_gateway_start(secret, path, NULL, &other) == -UMBRA_EINUSE && other == 0);
    CHECK(unlink(path) == 0);
    hangs_for_nobody(path, lock);
    contests(path);
    CHECK(unlink(own) == 0 && close(guard) == 0);
}

static umbra_gateways knowing(uint32_t masquerading)
{
    struct umbra_gateways_options options;
    umbra_gateways gateways = 0;
    memset(&options, 0, sizeof options);
    CHECK(umbra_gateways_create(&options, &gateways) == -UMBRA_ESTRUCT);
    options.size = sizeof options;
    CHECK(umbra_gateways_create(&options, &gateways) == -UMBRA_EINVAL && gateways == 0);
    options.secret = secret;
    options.masquerading = masquerading;
    must(umbra_gateways_create(&options, &gateways));
    return gateways;
}

static umbra_channel channel_of(uint32_t capacity, uint32_t kind)
{
    struct umbra_channel_options options;
    umbra_channel channel;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = capacity;
    options.kind = kind;
    options.initial = 2;
    must(umbra_channel_create(&options, &channel));
    return channel;
}

static umbra_channel far_channel(umbra_channel near, umbra_gateways gateways)
{
    struct reference reference;
    umbra_channel far;
    must(umbra_channel_reference(near, reference.bytes, sizeof reference.bytes, &reference.length));
    must(umbra_channel_attach_anywhere(reference.bytes, reference.length, gateways, PATIENCE_MS, &far));
    return far;
}

/* What is refused before anything travels. */
static void registers(umbra_channel near, umbra_gateways gateways, const char *address)
{
    umbra_gateways plain = knowing(0);
    umbra_channel channel = 0;
    struct reference reference;
    uint64_t here = 0, there = 0;
    doing = "registers";
    must(umbra_host_id(&here));
    must(umbra_channel_reference(near, reference.bytes, sizeof reference.bytes, &reference.length));
    must(umbra_reference_host(reference.bytes, reference.length, &there));
    CHECK(here == there && here != 0);
    CHECK(umbra_reference_host(reference.bytes, reference.length - 1, &there) == -UMBRA_EINVAL);

    CHECK(umbra_gateways_unregister(gateways, here) == -UMBRA_ENOGATEWAY);
    CHECK(umbra_channel_attach_anywhere(reference.bytes, reference.length, gateways, 0, &channel) == -UMBRA_ENOGATEWAY);
    CHECK(umbra_gateways_register(gateways, here, "nowhere") == -UMBRA_EINVAL);
    CHECK(umbra_gateways_register(gateways, here, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_gateways_register(near, here, address) == -UMBRA_EKIND);
    must(umbra_gateways_register(gateways, here, address));
    CHECK(umbra_gateways_register(gateways, here, address) == -UMBRA_EINVAL);
    CHECK(umbra_channel_attach_anywhere(reference.bytes, reference.length, near, 0, &channel) == -UMBRA_EKIND);
    CHECK(channel == 0);

    /* Without the disguise it is a channel of this host, and no gateway is asked. */
    must(umbra_channel_attach_anywhere(reference.bytes, reference.length, plain, 0, &channel));
    must(umbra_channel_send(channel, "direct", 6, 1, 0, 0));
    must(umbra_channel_poll(near, UMBRA_POLL_RESET, 0, 0, NULL));
    must(umbra_channel_detach(channel));
    must(umbra_gateways_release(plain));
    CHECK(umbra_gateways_release(plain) == -UMBRA_ESTALE);
}

/* The same calls at either end, and the same answers. */
static void messages(umbra_channel near, umbra_channel far)
{
    umbra_channel ends[2], alone[1];
    umbra_channel_set set = 0;
    int from;
    ends[0] = near;
    ends[1] = far;
    for (from = 0; from < 2; from++) {
        umbra_channel to = ends[from], of = ends[1 - from];
        char pad[64] = "kept";
        size_t length = 0;
        uint64_t hints = 0, number = 0;
        doing = from == 0 ? "messages from here" : "messages from there";
        CHECK(umbra_channel_receive(of, pad, sizeof pad, 0, 0, &length, &hints) == -UMBRA_EEMPTY);
        CHECK(umbra_channel_receive(of, pad, sizeof pad, 0, 20, &length, &hints) == -UMBRA_ETIMEOUT);
        CHECK(umbra_channel_peek(of, pad, sizeof pad, 0, 0, &length, &hints) == -UMBRA_EEMPTY);
        CHECK(strcmp(pad, "kept") == 0);
        must(umbra_channel_send(to, "hello", 5, UINT64_MAX, 0, PATIENCE_MS));
        must(umbra_channel_send(to, "", 0, 2, 0, 0));
        CHECK(umbra_channel_send(to, "third", 5, 3, 0, 0) == -UMBRA_EFULL);
        CHECK(umbra_channel_send(to, "third", 5, 3, 0, 20) == -UMBRA_ETIMEOUT);
        CHECK(umbra_channel_send(to, NULL, 1, 3, 0, 20) == -UMBRA_EINVAL);
        must(umbra_channel_poll(of, UMBRA_POLL_SIZE, 0, 0, &number));
        CHECK(number == 2);
        must(umbra_channel_peek(of, pad, 4, 0, 0, &length, &hints));
        CHECK(length == 5 && memcmp(pad, "hell", 4) == 0 && hints == UINT64_MAX);
        CHECK(umbra_channel_receive(of, pad, 4, 0, 0, &length, &hints) == -UMBRA_ESIZE && length == 5);
        must(umbra_channel_receive(of, pad, sizeof pad, 0, PATIENCE_MS, &length, &hints));
        CHECK(length == 5 && memcmp(pad, "hello", 5) == 0 && hints == UINT64_MAX);
        must(umbra_channel_receive(of, NULL, 0, 0, PATIENCE_MS, &length, &hints));
        CHECK(length == 0 && hints == 2);
        CHECK(umbra_channel_poll(of, UMBRA_POLL_SEMAPHORE_P, 0, 0, NULL) == -UMBRA_EKIND);
        CHECK(umbra_channel_poll(of, -1, 0, 0, NULL) == -UMBRA_EINVAL);
        CHECK(umbra_channel_send(to, large, 2000, 0, 0, 0) == -UMBRA_ENEVER);
    }
    CHECK(umbra_channel_send(far, large, sizeof large, 0, 0, 0) == -UMBRA_ENEVER);
    doing = "what is done there only";
    alone[0] = far;
    CHECK(umbra_channel_destroy(far) == -UMBRA_ENONLOCAL);
    CHECK(umbra_channel_set_create(alone, 1, UMBRA_POLL_IN, &set) == -UMBRA_ENONLOCAL && set == 0);
}

/* What is longer than a block goes through the pool that the channel lies in, and through the gateway. */
static void long_messages(umbra_gateways gateways)
{
    struct umbra_pool_options room;
    struct umbra_channel_options options;
    umbra_pool pool;
    umbra_channel near, far;
    static char pad[20000];
    size_t length = 0, i;
    doing = "long messages";
    memset(&room, 0, sizeof room);
    room.size = sizeof room;
    room.bytes = 1 << 20;
    must(umbra_pool_create(NULL, &room, &pool));
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.block = 256;
    must(umbra_channel_create_in(pool, &options, &near));
    far = far_channel(near, gateways);
    for (i = 0; i < sizeof pad; i++)
        large[i] = (char)(i * 7 + i / 253);
    must(umbra_channel_send(far, large, sizeof pad, 0, 0, PATIENCE_MS));
    must(umbra_channel_peek(far, pad, sizeof pad, 0, PATIENCE_MS, &length, NULL));
    CHECK(length == sizeof pad && memcmp(pad, large, sizeof pad) == 0);
    CHECK(umbra_channel_receive(far, pad, 300, 0, PATIENCE_MS, &length, NULL) == -UMBRA_ESIZE && length == sizeof pad);
    memset(pad, 0, sizeof pad);
    must(umbra_channel_receive(far, pad, sizeof pad, 0, PATIENCE_MS, &length, NULL));
    CHECK(length == sizeof pad && memcmp(pad, large, sizeof pad) == 0);
    must(umbra_channel_detach(far));
    must(umbra_channel_destroy(near));
    must(umbra_channel_detach(near));
    must(umbra_pool_detach(pool));
}

/* A call that waits holds up no other one with the same handle. */
static void *await(void *far)
{
    char pad[8];
    size_t length = 0;
    must(umbra_channel_receive(*(umbra_channel *)far, pad, sizeof pad, 0, PATIENCE_MS, &length, NULL));
    return length == 4 && memcmp(pad, "late", 4) == 0 ? far : NULL;
}

static void side_by_side(umbra_channel near, umbra_channel far)
{
    pthread_t receiver;
    void *received = NULL;
    uint64_t waiting = 0;
    doing = "calls side by side";
    CHECK(pthread_create(&receiver, NULL, await, &far) == 0);
    while (waiting == 0)
        must(umbra_channel_poll(far, UMBRA_POLL_BLOCKED_RECEIVERS, 0, 0, &waiting));
    must(umbra_channel_send(far, "late", 4, 0, 0, PATIENCE_MS));
    CHECK(pthread_join(receiver, &received) == 0 && received == &far);
    must(umbra_channel_poll(near, UMBRA_POLL_SIZE, 0, 0, &waiting));
    CHECK(waiting == 0);
}

/* Parties of two hosts meet, and a semaphore counts for both. */
static void *meet(void *far)
{
    uint32_t came = 9;
    must(umbra_channel_barrier(*(umbra_channel *)far, 0, PATIENCE_MS, &came));
    return came < 2 ? far : NULL;
}

static void barriers_and_semaphores(umbra_channel near, umbra_channel far, umbra_gateways gateways)
{
    umbra_channel semaphore = channel_of(0, UMBRA_CHANNEL_SEMAPHORE), counted = far_channel(semaphore, gateways);
    pthread_t party;
    void *met = NULL;
    uint64_t before = 0;
    uint32_t came = 9;
    doing = "barrier";
    CHECK(pthread_create(&party, NULL, meet, &far) == 0);
    must(umbra_channel_barrier(near, 0, PATIENCE_MS, &came));
    CHECK(came < 2);
    CHECK(pthread_join(party, &met) == 0 && met == &far);
    CHECK(umbra_channel_barrier(far, 0, 20, &came) == -UMBRA_ETIMEOUT);
    CHECK(umbra_channel_barrier(near, 0, 20, &came) == -UMBRA_EBROKEN);
    must(umbra_channel_poll(far, UMBRA_POLL_RESET, 0, 0, NULL));
    doing = "semaphore";
    must(umbra_channel_poll(counted, UMBRA_POLL_SEMAPHORE_P, 0, 0, &before));
    CHECK(before == 2);
    must(umbra_channel_poll(semaphore, UMBRA_POLL_SEMAPHORE_P, 0, 0, &before));
    CHECK(before == 1);
    CHECK(umbra_channel_poll(counted, UMBRA_POLL_SEMAPHORE_P, 0, 20, NULL) == -UMBRA_ETIMEOUT);
    CHECK(umbra_channel_send(counted, "x", 1, 0, 0, 0) == -UMBRA_EKIND);
    must(umbra_channel_destroy(semaphore));
    CHECK(umbra_channel_poll(counted, UMBRA_POLL_SEMAPHORE_P, 0, PATIENCE_MS, NULL) == -UMBRA_EDESTROYED);
    must(umbra_channel_detach(counted));
    must(umbra_channel_detach(semaphore));
}

/* A conversation in either direction, in every mode, by the calls for streams at hand. */
static void conversations(umbra_gateways gateways)
{
    static const char text[] = "said in parts, read in others";
    uint32_t mode;
    for (mode = UMBRA_STREAM_NOMINAL; mode <= UMBRA_STREAM_SINGLE; mode++) {
        struct umbra_stream_options options;
        struct umbra_stream_statistics statistics;
        struct umbra_sender_options opened;
        struct umbra_receiver_options met;
        struct umbra_received received;
        struct reference reference, same;
        umbra_stream ends[2];
        int from;
        doing = "streams";
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.mode = mode;
        options.tasks = 1;
        must(umbra_stream_create(&options, NULL, 0, &ends[0]));
        must(umbra_stream_reference(ends[0], reference.bytes, sizeof reference.bytes, &reference.length));
        must(umbra_stream_attach_anywhere(reference.bytes, reference.length, NULL, 0, gateways, PATIENCE_MS, &ends[1]));
        must(umbra_stream_reference(ends[1], same.bytes, sizeof same.bytes, &same.length));
        CHECK(same.length == reference.length && memcmp(same.bytes, reference.bytes, same.length) == 0);
        CHECK(umbra_stream_destroy(ends[1]) == -UMBRA_ENONLOCAL);
        must(umbra_stream_new_task(ends[1]));
        CHECK(umbra_stream_join_tasks(ends[1], 0, 20) == -UMBRA_ETIMEOUT);
        must(umbra_stream_task_done(ends[1]));
        must(umbra_stream_join_tasks(ends[1], 0, PATIENCE_MS));
        CHECK(umbra_stream_task_done(ends[1]) == -UMBRA_EINVAL);
        memset(&opened, 0, sizeof opened);
        memset(&met, 0, sizeof met);
        opened.size = sizeof opened;
        met.size = sizeof met;
        if (mode < UMBRA_STREAM_RECEIVER_SUPPLIED) {
            umbra_receiver none = 0;
            CHECK(umbra_receiver_open(ends[1], &met, 0, &none) == -UMBRA_EEMPTY);
            CHECK(umbra_receiver_open(ends[1], &met, 20, &none) == -UMBRA_ETIMEOUT && none == 0);
        }
        for (from = 0; from < 2; from++) {
            /* Who brings a stream at hand keeps it; at the far end the gateway does so. */
            int brings = mode == UMBRA_STREAM_SENDER_SUPPLIED ? from : 1 - from;
            umbra_sender sender;
            umbra_receiver receiver = 0;
            umbra_supplied supplied = 0;
            char pad[sizeof text];
            const void *message = NULL;
            size_t length = 0;
            uint64_t arg = 0;
            int ended = 1, file;
            if ((mode == UMBRA_STREAM_SENDER_SUPPLIED || mode == UMBRA_STREAM_RECEIVER_SUPPLIED) && brings == 0)
                must(umbra_stream_supply(ends[0], &supplied));
            opened.supplied = mode == UMBRA_STREAM_SENDER_SUPPLIED ? supplied : 0;
            met.supplied = mode == UMBRA_STREAM_RECEIVER_SUPPLIED ? supplied : 0;
            if (mode == UMBRA_STREAM_RECEIVER_SUPPLIED)
                must(umbra_receiver_open(ends[1 - from], &met, PATIENCE_MS, &receiver));
            must(umbra_sender_open(ends[from], &opened, PATIENCE_MS, &sender));
            if (from == 1) {
                CHECK(umbra_sender_take_kept(sender, pad, sizeof pad, &length, &arg) == -UMBRA_ENONLOCAL);
                CHECK(umbra_sender_open_file(sender, 0, &file) == -UMBRA_ENONLOCAL);
                CHECK(umbra_sender_send(sender, text, 1, UMBRA_ARG_RESERVED, 0) == -UMBRA_EINVAL);
            }
            must(umbra_sender_keep(sender, text, 4, 77));
            must(umbra_sender_keep(sender, text + 4, 3, 78));
            if (mode != UMBRA_STREAM_BUFFERED) {
                must(umbra_sender_flush(sender, PATIENCE_MS));
                must(umbra_sender_send(sender, text + 7, sizeof text - 7, 79, PATIENCE_MS));
            } else
                must(umbra_sender_keep(sender, text + 7, sizeof text - 7, 79));
            must(umbra_sender_close(sender, PATIENCE_MS));
            CHECK(umbra_sender_close(sender, PATIENCE_MS) == -UMBRA_ESTALE);
            if (receiver == 0)
                must(umbra_receiver_open(ends[1 - from], &met, PATIENCE_MS, &receiver));
            /* A far end is heard into memory of its own first, which may not be there. */
            if (from == 0)
                CHECK(umbra_receiver_receive(receiver, pad, (size_t)1 << 50, 1, 0, &length, &arg) == -UMBRA_ESYSTEM);
            must(umbra_receiver_receive(receiver, pad, 2, 0, PATIENCE_MS, &length, &arg));
            CHECK(length == 2 && arg == 77);
            if (from == 0)
                CHECK(umbra_receiver_receive_memory(receiver, 0, &received) == -UMBRA_ENONLOCAL);
            must(umbra_receiver_receive(receiver, pad + 2, 8, 1, PATIENCE_MS, &length, &arg));
            CHECK(length == 8);
            CHECK(umbra_receiver_receive_whole(receiver, NULL, 0, PATIENCE_MS, &length, &arg) == -UMBRA_ESIZE);
            CHECK(length == sizeof text - 10);
            must(umbra_receiver_receive_message(receiver, 0, &message, &length, &arg));
            CHECK(length == sizeof text - 10);
            memcpy(pad + 10, message, length);
            CHECK(memcmp(pad, text, sizeof text) == 0);
            CHECK(umbra_receiver_receive(receiver, pad, 1, 0, PATIENCE_MS, &length, &arg) == -UMBRA_EENDED);
            CHECK(umbra_receiver_receive(receiver, pad, 1, 1, PATIENCE_MS, &length, &arg) == -UMBRA_EENDED);
            CHECK(memcmp(pad, text, sizeof text) == 0);
            must(umbra_receiver_has_ended(receiver, &ended));
            CHECK(ended == 1);
            must(umbra_receiver_close(receiver, PATIENCE_MS));
            CHECK(umbra_receiver_close(receiver, 0) == -UMBRA_ESTALE);
            if (supplied != 0)
                must(umbra_supplied_release(supplied));
        }
        statistics.size = sizeof statistics;
        must(umbra_stream_statistics(ends[1], &statistics));
        CHECK(statistics.waiting == 0);
        must(umbra_stream_destroy(ends[0]));
        opened.supplied = 0;
        CHECK(umbra_sender_open(ends[1], &opened, 0, &(umbra_sender){0}) == -UMBRA_EDESTROYED);
        must(umbra_stream_detach(ends[1]));
        must(umbra_stream_detach(ends[0]));
    }
}

/* Memory that is allocated from afar, written, read at hand, left, and freed. */
static void memory(umbra_gateways gateways)
{
    struct umbra_pool_options options;
    struct umbra_pool_statistics statistics;
    struct reference reference, named;
    umbra_pool pool, far, other;
    umbra_allocation allocation = 0, found = 0, left = 0;
    void *address = &options, *here;
    static unsigned char back[sizeof large];
    uint64_t length = 0;
    size_t i;
    doing = "memory";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = 1 << 20;
    must(umbra_pool_create(NULL, &options, &pool));
    must(umbra_pool_reference(pool, reference.bytes, sizeof reference.bytes, &reference.length));
    must(umbra_pool_attach_anywhere(reference.bytes, reference.length, gateways, PATIENCE_MS, &far));
    CHECK(umbra_pool_alloc(far, 1 << 24, 1, 0, &allocation, &address) == -UMBRA_ENEVER);
    must(umbra_pool_alloc(far, sizeof large, 7, 0, &allocation, &address));
    CHECK(address == NULL);
    for (i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 31 + i / 251);
    must(umbra_allocation_write(far, allocation, 0, large, sizeof large, PATIENCE_MS));
    must(umbra_allocation_look(pool, allocation, &here, &length));
    CHECK(length == sizeof large && memcmp(here, large, sizeof large) == 0);
    memcpy((char *)here + 70000, "changed", 7);
    must(umbra_allocation_read(far, allocation, 0, back, sizeof back, PATIENCE_MS));
    CHECK(memcmp(back, here, sizeof back) == 0);
    must(umbra_allocation_read(pool, allocation, 70000, back, 7, 0));
    CHECK(memcmp(back, "changed", 7) == 0);
    must(umbra_allocation_write(pool, allocation, 70000, large, 7, 0));
    CHECK(umbra_allocation_read(far, allocation, sizeof large - 6, back, 7, PATIENCE_MS) == -UMBRA_EBOUNDS);
    CHECK(umbra_allocation_read(pool, allocation, sizeof large - 6, back, 7, 0) == -UMBRA_EBOUNDS);
    CHECK(umbra_allocation_read(far, allocation, 0, NULL, 7, 0) == -UMBRA_EINVAL);
    CHECK(umbra_allocation_read(far, allocation, 0, back, (size_t)1 << 46, PATIENCE_MS) == -UMBRA_EBOUNDS);
    CHECK(umbra_allocation_read(far, allocation + 99, 0, back, 7, PATIENCE_MS) == -UMBRA_ESTALE);
    CHECK(memcmp(back, "changed", 7) == 0);
    must(umbra_allocation_look(far, allocation, &address, &length));
    CHECK(length == sizeof large && address == NULL);
    must(umbra_allocation_reference(pool, allocation, named.bytes, sizeof named.bytes, &named.length));
    must(umbra_allocation_find(far, named.bytes, named.length, &found, &address, &length));
    CHECK(found == allocation && length == sizeof large && address == NULL);
    CHECK(umbra_allocation_find(far, reference.bytes, reference.length, &found, &address, &length) == -UMBRA_EINVAL);
    statistics.size = sizeof statistics;
    must(umbra_pool_statistics(far, &statistics));
    CHECK(statistics.allocations == 1 && statistics.asked_bytes == sizeof large);

    doing = "what is done with memory there only";
    CHECK(umbra_pool_destroy(far) == -UMBRA_ENONLOCAL);
    CHECK(umbra_pool_reclaim(far) == -UMBRA_ENONLOCAL);
    CHECK(umbra_pool_list(far, UINT32_MAX, NULL, NULL, 0, &i) == -UMBRA_ENONLOCAL);
    CHECK(umbra_allocation_reference(far, allocation, named.bytes, sizeof named.bytes, &i) == -UMBRA_ENONLOCAL);

    doing = "what is left of it";
    must(umbra_pool_alloc(far, 10, 1, PATIENCE_MS, &left, &address));
    must(umbra_allocation_leave(far, left));
    CHECK(umbra_allocation_leave(far, left) == -UMBRA_ESTALE);
    must(umbra_allocation_leave(pool, left));
    must(umbra_pool_attach_anywhere(named.bytes, named.length, gateways, PATIENCE_MS, &other));
    must(umbra_allocation_free(other, allocation));
    CHECK(umbra_allocation_free(far, allocation) == -UMBRA_ESTALE);
    must(umbra_pool_detach(other));
    must(umbra_pool_alloc(far, 20, 1, 0, &allocation, &address));
    must(umbra_pool_detach(far));
    CHECK(umbra_pool_detach(far) == -UMBRA_ESTALE);
    for (length = 2; length != 1; length = statistics.allocations)
        must(umbra_pool_statistics(pool, &statistics));
    must(umbra_allocation_free(pool, left));
    must(umbra_pool_detach(pool));
}

/* A gateway that dies is an error at once for who waits, and the next one is used in its place. */
static void *lose(void *far)
{
    char pad[8];
    size_t length = 0;
    return umbra_channel_receive(*(umbra_channel *)far, pad, sizeof pad, 0, PATIENCE_MS, &length, NULL) == -UMBRA_ELOST ? far : NULL;
}

static void the_gateway_dies(umbra_channel near, umbra_channel far, pid_t pid, umbra_gateways gateways, const char *next)
{
    char pad[8];
    size_t length;
    uint64_t host, waiting = 0;
    pthread_t receiver;
    void *lost = NULL;
    doing = "the end of the gateway";
    CHECK(pthread_create(&receiver, NULL, lose, &far) == 0);
    while (waiting == 0)
        must(umbra_channel_poll(near, UMBRA_POLL_BLOCKED_RECEIVERS, 0, 0, &waiting));
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(pthread_join(receiver, &lost) == 0 && lost == &far);
    must(umbra_host_id(&host));
    must(umbra_gateways_unregister(gateways, host));
    must(umbra_gateways_register(gateways, host, next));
    must(umbra_channel_send(near, "again", 5, 0, 0, 0));
    must(umbra_channel_receive(far, pad, sizeof pad, 0, PATIENCE_MS, &length, NULL));
    CHECK(length == 5 && memcmp(pad, "again", 5) == 0);
    must(umbra_channel_detach(far));
    CHECK(umbra_channel_detach(far) == -UMBRA_ESTALE);
}

static void remove_secret(void)
{
    unlink(secret);
}

int main(void)
{
    umbra_gateways gateways;
    umbra_channel near, far;
    char address[64], next[64];
    uint32_t port = 0;
    int wake[2], wake_next[2], status = 1;
    pid_t first, second;

    doing = "set up";
    make_secret();
    CHECK(atexit(remove_secret) == 0);
    paths();
    first = start_gateway(wake, &port);
    snprintf(address, sizeof address, "127.0.0.1:%" PRIu32, port);
    second = start_gateway(wake_next, &port);
    snprintf(next, sizeof next, "127.0.0.1:%" PRIu32, port);
    gateways = knowing(1);
    near = channel_of(2, UMBRA_CHANNEL_MESSAGES);
    registers(near, gateways, address);
    far = far_channel(near, gateways);
    messages(near, far);
    long_messages(gateways);
    side_by_side(near, far);
    barriers_and_semaphores(near, far, gateways);
    conversations(gateways);
    memory(gateways);
    the_gateway_dies(near, far, first, gateways, next);

    doing = "the end";
    close(wake[1]);
    close(wake_next[1]);
    CHECK(waitpid(second, &status, 0) == second && status == 0);
    must(umbra_gateways_release(gateways));
    must(umbra_channel_detach(near));
    printf("all is right\n");
    return 0;
}
