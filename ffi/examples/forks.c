/* A program with threads that forks while they make, use and release handles: each child may go on with what it inherited, and
 * make its own.
 *
 *     forks [CHILDREN]
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define THREADS 3
/* A child that lives as long hangs. */
#define PATIENCE_S 60

static umbra_pool inherited;
static volatile int is_over;

static int use(umbra_pool pool)
{
    struct umbra_pool_statistics statistics;
    statistics.size = sizeof statistics;
    return umbra_pool_statistics(pool, &statistics);
}

/* Makes a pool with a number of its own, uses it and releases it. */
static int make_another(uint64_t uid)
{
    struct umbra_pool_options options;
    umbra_pool pool = 0;
    int code;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = 1 << 16;
    options.memory = UMBRA_MEMORY_PRIVATE;
    options.uid = uid;
    if ((code = umbra_pool_create(NULL, &options, &pool)) != 0 || (code = use(pool)) != 0)
        return code;
    return umbra_pool_detach(pool);
}

static void *work(void *uid)
{
    while (!is_over) {
        int i;
        for (i = 0; i < 100; i++)
            must(use(inherited));
        must(make_another(*(uint64_t *)uid));
    }
    return NULL;
}

/* A child that gives up the gateway that it inherits waits for none of its threads, and takes nothing from its parent. */
static void give_up_a_gateway(void)
{
    static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    char secret[64], path[64];
    umbra_gateway gateway;
    int file, status = 1;
    pid_t pid;
    doing = "a gateway";
    snprintf(secret, sizeof secret, "/tmp/umbra-forks-%ld", (long)getpid());
    snprintf(path, sizeof path, "/tmp/umbra-forks-%ld.socket", (long)getpid());
    file = open(secret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK(write(file, key, sizeof key - 1) == (ssize_t)sizeof key - 1 && close(file) == 0);
    must(umbra_gateway_start(secret, path, NULL, &gateway));
    CHECK(unlink(secret) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        _exit(umbra_gateway_end(gateway) == 0 ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && access(path, F_OK) == 0);
    must(umbra_gateway_end(gateway));
    CHECK(access(path, F_OK) != 0);
}

static void *serve(void *member)
{
    while (umbra_gpc_serve(*(umbra_member *)member, UMBRA_FOREVER) == 0)
        ;
    return NULL;
}

/* A child has no member of its parent's, also while a thread that it lacks has the turn there, and takes a seat of its own. */
static int is_refused(umbra_station station, umbra_member member)
{
    struct umbra_gpc_call call;
    umbra_member own = 0;
    umbra_call begun = 0;
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = "nobody's";
    return umbra_gpc_serve(member, 0) == -UMBRA_ESTALE && umbra_gpc_start(member, &call, &begun) == -UMBRA_ESTALE &&
           umbra_gpc_release(member, "nobody's") == -UMBRA_ESTALE && umbra_gpc_leave(member) == -UMBRA_ESTALE &&
           umbra_gpc_join(station, 0, NULL, &own) == -UMBRA_EINUSE && umbra_gpc_join(station, 1, NULL, &own) == 0 &&
           umbra_gpc_serve(own, 0) == 0 && umbra_gpc_leave(own) == 0;
}

static void leave_a_member_alone(void)
{
    struct umbra_station_options options;
    umbra_station station;
    umbra_member member;
    pthread_t thread;
    int status = 1;
    pid_t pid;
    doing = "a member";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = 2;
    must(umbra_station_create(&options, &station));
    must(umbra_gpc_join(station, 0, NULL, &member));
    CHECK(pthread_create(&thread, NULL, serve, &member) == 0);
    /* Until the thread has it. */
    while (umbra_gpc_serve(member, 0) == 0)
        sched_yield();
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        _exit(is_refused(station, member) ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(umbra_gpc_leave(member));
    CHECK(pthread_join(thread, NULL) == 0);
    must(umbra_station_detach(station));
}

/* A child neither speaks nor ends in its parent's conversations: it attaches by the reference. */
static int is_unheard(umbra_stream stream, umbra_sender sender, umbra_receiver receiver)
{
    struct umbra_stream_statistics statistics;
    struct umbra_sender_options to;
    unsigned char reference[512], pad[8];
    umbra_stream own = 0;
    umbra_sender opened = 0;
    size_t length = 0, got = 0;
    int descriptor = -1;
    statistics.size = sizeof statistics;
    memset(&to, 0, sizeof to);
    to.size = sizeof to;
    return umbra_sender_send(sender, "two", 3, 2, 0) == -UMBRA_ESTALE &&
           umbra_sender_keep(sender, "two", 3, 2) == -UMBRA_ESTALE && umbra_sender_flush(sender, 0) == -UMBRA_ESTALE &&
           umbra_sender_open_file(sender, 0, &descriptor) == -UMBRA_ESTALE &&
           umbra_receiver_receive(receiver, pad, sizeof pad, 0, 0, &got, NULL) == -UMBRA_ESTALE &&
           umbra_receiver_receive_whole(receiver, pad, sizeof pad, 0, &got, NULL) == -UMBRA_ESTALE &&
           umbra_sender_open(stream, &to, 0, &opened) == -UMBRA_ESTALE &&
           umbra_stream_statistics(stream, &statistics) == -UMBRA_ESTALE &&
           umbra_sender_close(sender, 0) == -UMBRA_ESTALE && umbra_receiver_close(receiver, 0) == -UMBRA_ESTALE &&
           umbra_stream_reference(stream, reference, sizeof reference, &length) == 0 &&
           umbra_stream_attach_reference(reference, length, NULL, 0, &own) == 0 &&
           umbra_stream_statistics(own, &statistics) == 0 && umbra_stream_detach(own) == 0 &&
           umbra_stream_detach(stream) == 0;
}

static void leave_a_conversation_alone(void)
{
    struct umbra_stream_options options;
    struct umbra_sender_options to;
    struct umbra_receiver_options from;
    umbra_stream stream;
    umbra_sender sender;
    umbra_receiver receiver;
    unsigned char pad[8];
    size_t length = 0;
    uint64_t arg = 0;
    int status = 1;
    pid_t pid;
    doing = "a conversation";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    memset(&to, 0, sizeof to);
    to.size = sizeof to;
    memset(&from, 0, sizeof from);
    from.size = sizeof from;
    must(umbra_stream_create(&options, NULL, 0, &stream));
    must(umbra_sender_open(stream, &to, UMBRA_FOREVER, &sender));
    must(umbra_receiver_open(stream, &from, UMBRA_FOREVER, &receiver));
    must(umbra_sender_send(sender, "one", 3, 1, UMBRA_FOREVER));
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        _exit(is_unheard(stream, sender, receiver) ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(umbra_sender_close(sender, UMBRA_FOREVER));
    must(umbra_receiver_receive(receiver, pad, sizeof pad, 0, UMBRA_FOREVER, &length, &arg));
    CHECK(length == 3 && memcmp(pad, "one", 3) == 0 && arg == 1);
    CHECK(umbra_receiver_receive(receiver, pad, sizeof pad, 0, UMBRA_FOREVER, &length, &arg) == -UMBRA_EENDED);
    must(umbra_receiver_close(receiver, UMBRA_FOREVER));
    must(umbra_stream_detach(stream));
}

/* A child waits for channels by a set of its own, and sends in its own name. */
static int is_on_its_own(umbra_channel channel, umbra_channel_set set, umbra_bell bell)
{
    umbra_channel_set own = 0;
    umbra_bell another = 0;
    size_t index = 7;
    int what = 0, descriptor = -1;
    return umbra_channel_set_poll(set, 0, 0, &index, &what) == -UMBRA_ESTALE && index == 7 &&
           umbra_bell_rearm(bell) == -UMBRA_ESTALE && umbra_bell_create(&another, &descriptor) == 0 &&
           umbra_channel_set_ring(set, another) == -UMBRA_ESTALE &&
           umbra_channel_set_create(&channel, 1, UMBRA_POLL_IN, &own) == 0 &&
           umbra_channel_set_poll(own, 0, 0, &index, &what) == 0 && index == 0 && what == UMBRA_POLL_IN &&
           umbra_channel_set_ring(own, bell) == -UMBRA_ESTALE && umbra_channel_set_release(own) == 0 &&
           umbra_channel_send(channel, "two", 3, 2, 0, 0) == 0 && umbra_bell_end(another) == 0 &&
           umbra_bell_end(bell) == 0 && umbra_channel_set_release(set) == 0 && umbra_channel_detach(channel) == 0;
}

static void leave_a_set_alone(void)
{
    struct umbra_channel_options options;
    umbra_channel channel;
    umbra_channel_set set;
    umbra_bell bell;
    unsigned char pad[8];
    size_t length = 0, index = 7;
    uint64_t hints = 0, i;
    int status = 1, what = 0, descriptor = -1;
    pid_t pid;
    doing = "a set of channels";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    must(umbra_channel_create(&options, &channel));
    must(umbra_channel_set_create(&channel, 1, UMBRA_POLL_IN, &set));
    must(umbra_bell_create(&bell, &descriptor));
    must(umbra_channel_send(channel, "one", 3, 1, 0, 0));
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        _exit(is_on_its_own(channel, set, bell) ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(umbra_channel_set_poll(set, 0, 0, &index, &what));
    CHECK(index == 0 && what == UMBRA_POLL_IN);
    for (i = 1; i <= 2; i++) {
        must(umbra_channel_receive(channel, pad, sizeof pad, 0, 0, &length, &hints));
        CHECK(length == 3 && memcmp(pad, i == 1 ? "one" : "two", 3) == 0 && hints == i);
    }
    must(umbra_bell_rearm(bell));
    must(umbra_bell_end(bell));
    must(umbra_channel_set_release(set));
    must(umbra_channel_detach(channel));
}

int main(int argc, char **argv)
{
    const int children = argc > 1 ? atoi(argv[1]) : 100;
    struct umbra_pool_options options;
    uint64_t uids[THREADS + 1];
    pthread_t threads[THREADS];
    int status = 1, i;

    doing = "fork";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = 1 << 20;
    must(umbra_pool_create(NULL, &options, &inherited));
    for (i = 0; i <= THREADS; i++)
        must(umbra_uid_draw(&uids[i]));
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &uids[i]) == 0);
    for (i = 0; i < children; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(PATIENCE_S);
            _exit(use(inherited) == 0 && make_another(uids[THREADS]) == 0 && use(inherited) == 0 ? 0 : 1);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    is_over = 1;
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    must(umbra_pool_detach(inherited));
    give_up_a_gateway();
    leave_a_member_alone();
    leave_a_conversation_alone();
    leave_a_set_alone();
    printf("all is right\n");
    return 0;
}
