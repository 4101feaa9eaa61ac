/* A barrier in two steps, in the words of Dragon's core: processes that go through rounds, and each answer.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dragon_check.h"

#define PARTIES 3
#define PATIENCE 60
#define BROKEN UINT64_MAX

static const timespec_t patience = {PATIENCE, 0};

static dragonError_t poll_for(dragonChannelDescr_t *channel, short event, const timespec_t *timeout)
{
    return dragon_channel_poll(channel, DRAGON_IDLE_WAIT, event, timeout, NULL);
}

static dragonError_t try_for(dragonChannelDescr_t *channel, short event)
{
    return poll_for(channel, event, &DRAGON_CHANNEL_TRYONCE_TIMEOUT);
}

/* The number that this party is told. */
static uint64_t told(dragonChannelDescr_t *channel)
{
    dragonChannelRecvh_t receives;
    dragonMessage_t message;
    uint64_t number;
    size_t length = 0;
    void *at;
    OK(dragon_channel_recvh(channel, &receives, NULL));
    OK(dragon_chrecv_open(&receives));
    OK(dragon_channel_message_init(&message, NULL, NULL));
    OK(dragon_chrecv_get_msg_blocking(&receives, &message, &patience));
    OK(dragon_channel_message_get_ptr_info(&message, &at, &length));
    CHECK(length == sizeof number);
    memcpy(&number, at, sizeof number);
    OK(dragon_channel_message_destroy(&message, true));
    OK(dragon_chrecv_close(&receives));
    return number;
}

/* One round; the number that this party is told. */
static uint64_t party(dragonChannelDescr_t *channel)
{
    dragonError_t came = poll_for(channel, DRAGON_CHANNEL_POLLBARRIER_WAIT, &patience);
    if (came == DRAGON_BARRIER_READY_TO_RELEASE)
        OK(poll_for(channel, DRAGON_CHANNEL_POLLBARRIER_RELEASE, &patience));
    else
        expect(came, DRAGON_SUCCESS, "wait", __LINE__);
    return told(channel);
}

/* Goes through rounds, and says what it was told; then it is counted in once more, and stays so. */
static void child(int from_parent, long rounds, int says)
{
    dragonSerial_t serial = get(from_parent);
    dragonChannelDescr_t channel;
    uint64_t number = 0;
    long round;
    OK(dragon_channel_attach(&serial, &channel));
    OK(dragon_channel_serial_free(&serial));
    for (round = 0; round < rounds; round++) {
        number = party(&channel);
        CHECK(write(says, &number, sizeof number) == (ssize_t)sizeof number);
    }
    OK(poll_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT, &patience));
    CHECK(write(says, &number, sizeof number) == (ssize_t)sizeof number);
    for (;;)
        pause();
}

/* Parties in several processes; one of them is killed at the end. */
static void rounds_of_processes(dragonMemoryPoolDescr_t *pool, long rounds)
{
    dragonChannelDescr_t channel;
    dragonChannelAttr_t attr;
    dragonSerial_t serial;
    int says[PARTIES - 1][2], to_child[2], status, i;
    pid_t pids[PARTIES - 1];
    uint64_t number;
    long round;
    OK(dragon_channel_attr_init(&attr));
    attr.capacity = PARTIES;
    OK(dragon_channel_create(&channel, 2, pool, &attr));
    OK(dragon_channel_serialize(&channel, &serial));
    for (i = 0; i < PARTIES - 1; i++) {
        CHECK(pipe(says[i]) == 0 && pipe(to_child) == 0);
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0)
            child(to_child[0], rounds, says[i][1]);
        put(to_child[1], &serial);
        CHECK(close(to_child[0]) == 0 && close(to_child[1]) == 0);
    }
    OK(dragon_channel_serial_free(&serial));
    for (round = 0; round < rounds; round++) {
        uint64_t all = 1u << party(&channel);
        for (i = 0; i < PARTIES - 1; i++) {
            CHECK(read(says[i][0], &number, sizeof number) == (ssize_t)sizeof number);
            CHECK(number < PARTIES);
            all |= 1u << number;
        }
        CHECK(all == (1u << PARTIES) - 1);
    }
    for (i = 0; i < PARTIES - 1; i++)
        CHECK(read(says[i][0], &number, sizeof number) == (ssize_t)sizeof number);
    CHECK(kill(pids[0], SIGKILL) == 0 && waitpid(pids[0], &status, 0) == pids[0]);
    /* One who waits finds that it is dead. */
    CHECK(told(&channel) == BROKEN);
    IS(BARRIER_BROKEN, poll_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT, &patience));
    for (i = 1; i < PARTIES - 1; i++)
        CHECK(kill(pids[i], SIGKILL) == 0 && waitpid(pids[i], &status, 0) == pids[i]);
    for (i = 0; i < PARTIES - 1; i++)
        CHECK(close(says[i][0]) == 0 && close(says[i][1]) == 0);
    OK(dragon_channel_destroy(&channel));
}

/* Each answer, of a barrier that one process alone goes through. */
static void answers(dragonMemoryPoolDescr_t *pool)
{
    static const timespec_t brief = {0, 20000000};
    dragonChannelDescr_t channel;
    dragonChannelAttr_t attr;
    dragonULInt number = 0;
    uint64_t waiting = 9;
    int i;
    OK(dragon_channel_attr_init(&attr));
    attr.capacity = PARTIES;
    OK(dragon_channel_create(&channel, 3, pool, &attr));
    OK(dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLBARRIER_WAIT, NULL, &number));
    CHECK(number == DRAGON_CHANNEL_POLLBARRIER_WAIT);
    OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    OK(dragon_channel_barrier_waiters(&channel, &waiting));
    CHECK(waiting == 2);
    IS(BARRIER_READY_TO_RELEASE, try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    IS(BARRIER_WAIT_TRY_AGAIN, try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_RELEASE));
    for (i = 0; i < PARTIES; i++) {
        IS(BARRIER_WAIT_TRY_AGAIN, try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
        CHECK(told(&channel) == (uint64_t)i);
    }
    /* Released too early; aborted; waited for in vain. */
    OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    IS(BARRIER_BROKEN, try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_RELEASE));
    CHECK(told(&channel) == BROKEN && dragon_channel_barrier_is_broken(&channel));
    IS(BARRIER_BROKEN, try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    OK(try_for(&channel, DRAGON_CHANNEL_POLLRESET));
    CHECK(!dragon_channel_barrier_is_broken(&channel));
    for (i = 0; i < PARTIES - 1; i++)
        OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_ABORT));
    for (i = 0; i < PARTIES - 1; i++)
        CHECK(told(&channel) == BROKEN);
    OK(dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLBARRIER_ISBROKEN, NULL, &number));
    CHECK(number == 1);
    OK(try_for(&channel, DRAGON_CHANNEL_POLLRESET));
    for (i = 0; i < PARTIES - 1; i++)
        OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    IS(BARRIER_READY_TO_RELEASE, try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    IS(TIMEOUT, poll_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT, &brief));
    for (i = 0; i < PARTIES; i++)
        CHECK(told(&channel) == BROKEN);
    OK(try_for(&channel, DRAGON_CHANNEL_POLLRESET));
    /* The other form has no place in a round of two steps. */
    OK(try_for(&channel, DRAGON_CHANNEL_POLLBARRIER_WAIT));
    CHECK(umbra_channel_barrier(channel._channel, UMBRA_WAIT_IDLE, UMBRA_FOREVER, NULL) == -UMBRA_EINVAL);
    {
        uint32_t came = 9;
        CHECK(umbra_channel_barrier(channel._channel, UMBRA_WAIT_IDLE, UMBRA_FOREVER, &came) == -UMBRA_EINUSE && came == 9);
    }
    OK(dragon_channel_destroy(&channel));
}

int main(int argc, char **argv)
{
    dragonMemoryPoolDescr_t pool;
    char name[40];
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    snprintf(name, sizeof name, "c-dragon-barrier-%ld", (long)getpid());
    OK(dragon_memory_pool_create(&pool, 1 << 20, name, 44, NULL));
    answers(&pool);
    rounds_of_processes(&pool, rounds);
    OK(dragon_memory_pool_destroy(&pool));
    printf("all is right\n");
    return 0;
}
