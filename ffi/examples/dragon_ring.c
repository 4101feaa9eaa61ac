/* Ten processes in the words of Dragon's core, over Umbra: a ring that hands one message on and on, many messages that are thrown
 * to and fro between two channels, and polls that one message or one receive ends for all.
 *
 *     dragon_ring [LAPS [ROUNDS]]
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dragon_check.h"

#define PARTIES 10
/* Those who throw messages, half of them from each side. */
#define THROWERS 8
#define MESSAGES 20
#define NUMBERS 512
/* The ring has a channel for each party; then come both sides, a gate, a channel with one place, and that of answers. */
#define LEFT PARTIES
#define RIGHT (PARTIES + 1)
#define GATE (PARTIES + 2)
#define NARROW (PARTIES + 3)
#define ANSWERS (PARTIES + 4)
#define CHANNELS (PARTIES + 5)

static const timespec_t patience = {60, 0};
static dragonMemoryPoolDescr_t pool;
static dragonChannelDescr_t channels[CHANNELS];

static dragonChannelSendh_t sends_to(int channel)
{
    dragonChannelSendh_t sends;
    dragonChannelSendAttr_t attr;
    OK(dragon_channel_send_attr_init(&attr));
    attr.return_mode = DRAGON_CHANNEL_SEND_RETURN_IMMEDIATELY;
    OK(dragon_channel_sendh(&channels[channel], &sends, &attr));
    OK(dragon_chsend_open(&sends));
    return sends;
}

static dragonChannelRecvh_t receives_from(int channel)
{
    dragonChannelRecvh_t receives;
    OK(dragon_channel_recvh(&channels[channel], &receives, NULL));
    OK(dragon_chrecv_open(&receives));
    return receives;
}

/* Hands memory over. */
static void give(dragonChannelSendh_t *sends, dragonMemoryDescr_t *memory)
{
    dragonMessage_t message;
    OK(dragon_channel_message_init(&message, memory, NULL));
    OK(dragon_chsend_send_msg(sends, &message, DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP, &patience));
    OK(dragon_channel_message_destroy(&message, false));
}

/* Receives memory of so many bytes; where it lies. */
static void *take(dragonChannelRecvh_t *receives, dragonMemoryDescr_t *memory, size_t bytes)
{
    dragonMessage_t message;
    void *address;
    size_t size = 0;
    OK(dragon_channel_message_init(&message, NULL, NULL));
    OK(dragon_chrecv_get_msg_blocking(receives, &message, &patience));
    OK(dragon_channel_message_get_mem(&message, memory));
    OK(dragon_channel_message_destroy(&message, false));
    OK(dragon_memory_get_ptr_info(memory, &address, &size));
    CHECK(size == bytes);
    return address;
}

static void send_number(int channel, uint64_t number)
{
    dragonChannelSendh_t sends = sends_to(channel);
    dragonMemoryDescr_t memory;
    void *address;
    OK(dragon_memory_alloc_blocking(&memory, &pool, sizeof number, &patience));
    OK(dragon_memory_get_pointer(&memory, &address));
    memcpy(address, &number, sizeof number);
    give(&sends, &memory);
    OK(dragon_chsend_close(&sends));
}

static uint64_t receive_number(int channel)
{
    dragonChannelRecvh_t receives = receives_from(channel);
    dragonMemoryDescr_t memory;
    uint64_t number;
    memcpy(&number, take(&receives, &memory, sizeof number), sizeof number);
    OK(dragon_memory_free(&memory));
    OK(dragon_chrecv_close(&receives));
    return number;
}

/* Waits until all others have said that they are so far. */
static void hear_all(uint64_t what, int parties)
{
    int i;
    for (i = 0; i < parties; i++)
        CHECK(receive_number(ANSWERS) == what);
}

/* Hands the message of the ring on, and counts in it. */
static void hand_on(int number, long laps)
{
    dragonChannelRecvh_t receives = receives_from(number);
    dragonChannelSendh_t sends = sends_to((number + 1) % PARTIES);
    dragonMemoryDescr_t memory;
    long lap;
    for (lap = 0; lap < laps; lap++) {
        uint64_t *count = take(&receives, &memory, sizeof *count);
        ++*count;
        give(&sends, &memory);
    }
    OK(dragon_chsend_close(&sends));
    OK(dragon_chrecv_close(&receives));
}

/* Throws messages from one side to the other, and counts the throws in each. */
static void throw_over(int number, long rounds)
{
    dragonChannelRecvh_t receives = receives_from(number % 2 ? LEFT : RIGHT);
    dragonChannelSendh_t sends = sends_to(number % 2 ? RIGHT : LEFT);
    dragonMemoryDescr_t memory;
    long round;
    for (round = 0; round < rounds; round++) {
        int *numbers = take(&receives, &memory, (NUMBERS + 1) * sizeof *numbers);
        numbers[NUMBERS]++;
        give(&sends, &memory);
    }
    OK(dragon_chsend_close(&sends));
    OK(dragon_chrecv_close(&receives));
}

static int child(int number, int from_parent, long laps, long rounds)
{
    const timespec_t brief = {0, 5000};
    dragonChannelDescr_t again[3];
    dragonChannelRecvh_t receives;
    dragonMessage_t message;
    dragonSerial_t serial = get(from_parent);
    uint64_t count = 9;
    int i;
    OK(dragon_memory_pool_attach(&pool, &serial));
    OK(dragon_memory_pool_serial_free(&serial));
    for (i = 0; i < CHANNELS; i++) {
        serial = get(from_parent);
        OK(dragon_channel_attach(&serial, &channels[i]));
        if (i < 3)
            OK(dragon_channel_attach(&serial, &again[i]));
        OK(dragon_channel_serial_free(&serial));
    }
    receives = receives_from(number);
    OK(dragon_channel_message_init(&message, NULL, NULL));
    IS(TIMEOUT, dragon_chrecv_get_msg_blocking(&receives, &message, &brief));
    OK(dragon_chrecv_close(&receives));
    send_number(ANSWERS, 1);
    hand_on(number, laps);
    if (number <= THROWERS)
        throw_over(number, rounds);
    send_number(ANSWERS, 2);
    OK(dragon_channel_poll(&channels[GATE], DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLIN, &patience, NULL));
    send_number(ANSWERS, 3);
    OK(dragon_channel_poll(&channels[NARROW], DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLOUT, &patience, NULL));
    send_number(ANSWERS, 4);
    /* What was attached several times is there until it was detached as often, whatever the order. */
    OK(dragon_channel_detach(&channels[number % 3]));
    OK(dragon_channel_message_count(&again[number % 3], &count));
    CHECK(count == 0);
    for (i = 0; i < 3; i++)
        OK(dragon_channel_detach(&again[(number + i) % 3]));
    IS(INVALID_ARGUMENT, dragon_channel_message_count(&again[number % 3], &count));
    for (i = 0; i < CHANNELS; i++)
        if (i != number % 3)
            OK(dragon_channel_detach(&channels[i]));
    OK(dragon_memory_pool_detach(&pool));
    return 0;
}

static void throw_first(void)
{
    dragonChannelSendh_t sends = sends_to(LEFT);
    dragonMemoryDescr_t memory;
    void *address;
    int i, j;
    for (i = 0; i < MESSAGES; i++) {
        int *numbers;
        OK(dragon_memory_alloc(&memory, &pool, (NUMBERS + 1) * sizeof *numbers));
        OK(dragon_memory_get_pointer(&memory, &address));
        numbers = address;
        for (j = 0; j < NUMBERS; j++)
            numbers[j] = i * NUMBERS + j;
        numbers[NUMBERS] = 0;
        give(&sends, &memory);
    }
    OK(dragon_chsend_close(&sends));
}

/* Each message is there once and whole, and no throw was lost or made twice. */
static void throw_last(long rounds)
{
    dragonChannelRecvh_t receives = receives_from(LEFT);
    dragonMemoryDescr_t memory;
    int is_there[MESSAGES] = {0}, i, j;
    long throws = 0;
    for (i = 0; i < MESSAGES; i++) {
        int *numbers = take(&receives, &memory, (NUMBERS + 1) * sizeof *numbers), which = numbers[0] / NUMBERS;
        CHECK(which >= 0 && which < MESSAGES && !is_there[which]);
        is_there[which] = 1;
        for (j = 0; j < NUMBERS; j++)
            CHECK(numbers[j] == which * NUMBERS + j);
        throws += numbers[NUMBERS];
        OK(dragon_memory_free(&memory));
    }
    CHECK(throws == THROWERS * rounds);
    OK(dragon_chrecv_close(&receives));
}

int main(int argc, char **argv)
{
    const long laps = argc > 1 ? atol(argv[1]) : 1000, rounds = argc > 2 ? atol(argv[2]) : 1000;
    dragonMemoryPoolAllocations_t allocs;
    dragonChannelAttr_t attr;
    dragonSerial_t serial;
    pid_t pids[PARTIES];
    int to[PARTIES], ends[2], status = 1, i, j;
    char name[30];

    /* The children attach for themselves: they are made before there is anything. */
    for (i = 1; i < PARTIES; i++) {
        CHECK(pipe(ends) == 0);
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            /* A parent that fails ends what its children read. */
            close(ends[1]);
            for (j = 1; j < i; j++)
                close(to[j]);
            return child(i, ends[0], laps, rounds);
        }
        close(ends[0]);
        to[i] = ends[1];
    }
    snprintf(name, sizeof name, "c-ring-%ld", (long)getpid());
    OK(dragon_memory_pool_create(&pool, 1 << 20, name, 43, NULL));
    OK(dragon_channel_attr_init(&attr));
    for (i = 0; i < CHANNELS; i++) {
        attr.capacity = i == NARROW ? 1 : 100;
        OK(dragon_channel_create(&channels[i], 50 + (uint64_t)i, &pool, &attr));
    }
    send_number(NARROW, 5);
    OK(dragon_memory_pool_serialize(&serial, &pool));
    for (j = 1; j < PARTIES; j++)
        put(to[j], &serial);
    OK(dragon_memory_pool_serial_free(&serial));
    for (i = 0; i < CHANNELS; i++) {
        OK(dragon_channel_serialize(&channels[i], &serial));
        for (j = 1; j < PARTIES; j++)
            put(to[j], &serial);
        OK(dragon_channel_serial_free(&serial));
    }

    hear_all(1, PARTIES - 1);
    send_number(0, 0);
    hand_on(0, laps);
    CHECK(receive_number(0) == (uint64_t)(PARTIES * laps));

    throw_first();
    hear_all(2, PARTIES - 1);
    throw_last(rounds);

    /* One message ends all polls, and so does one receive. */
    IS(TIMEOUT, dragon_channel_poll(&channels[ANSWERS], DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLIN, &(timespec_t){0, 50000000}, NULL));
    send_number(GATE, 6);
    hear_all(3, PARTIES - 1);
    CHECK(receive_number(GATE) == 6);
    IS(TIMEOUT, dragon_channel_poll(&channels[ANSWERS], DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLIN, &(timespec_t){0, 50000000}, NULL));
    CHECK(receive_number(NARROW) == 5);
    hear_all(4, PARTIES - 1);

    for (i = 1; i < PARTIES; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        close(to[i]);
    }
    for (i = 0; i < CHANNELS; i++)
        OK(dragon_channel_destroy(&channels[i]));
    OK(dragon_memory_pool_get_allocations(&pool, &allocs));
    CHECK(allocs.nallocs == 0);
    OK(dragon_memory_pool_allocations_destroy(&allocs));
    OK(dragon_memory_pool_destroy(&pool));
    printf("all is right\n");
    return 0;
}
