/* Two members of one process, whose functions use each other's, and a thread that keeps a member to itself: nobody waits for his
 * turn longer than he said.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "umbra.h"

#define MEMBERS 2
#define LONG_MS 5000

struct side {
    pthread_t thread;
    umbra_member member, other;
    pthread_barrier_t *both;
    const char *function;
    uint64_t patience_ms;
    int served, ended;
    char detail[200];
};

static pthread_key_t end_of_thread;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Runs when the other one does, and serves the member that runs it. */
static int crosses(void *user, struct umbra_gpc_work *work)
{
    struct side *side = user;
    (void)work;
    pthread_barrier_wait(side->both);
    side->served = umbra_gpc_serve(side->other, 100);
    umbra_error_detail(side->detail, sizeof side->detail, NULL);
    /* Neither goes before both have tried. */
    pthread_barrier_wait(side->both);
    return 0;
}

static int does_nothing(void *user, struct umbra_gpc_work *work)
{
    (void)user;
    (void)work;
    return 0;
}

static struct umbra_gpc_call call_of(const char *function, uint64_t timeout_ms)
{
    struct umbra_gpc_call call;
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = function;
    call.timeout_ms = timeout_ms;
    return call;
}

static void *calls_itself(void *given)
{
    struct side *side = given;
    struct umbra_gpc_call call = call_of(side->function, 60000);
    side->ended = umbra_gpc_exec(side->member, &call, NULL);
    return NULL;
}

static void functions_that_cross(struct side *sides)
{
    pthread_barrier_t both;
    char busy[64];
    int i;
    doing = "functions that use each other's member";
    CHECK(pthread_barrier_init(&both, NULL, MEMBERS) == 0);
    for (i = 0; i < MEMBERS; i++) {
        sides[i].other = sides[1 - i].member;
        sides[i].both = &both;
        sides[i].function = "crosses";
        must(umbra_gpc_register(sides[i].member, "crosses", crosses, &sides[i]));
    }
    for (i = 0; i < MEMBERS; i++)
        CHECK(pthread_create(&sides[i].thread, NULL, calls_itself, &sides[i]) == 0);
    for (i = 0; i < MEMBERS; i++)
        CHECK(pthread_join(sides[i].thread, NULL) == 0);
    for (i = 0; i < MEMBERS; i++) {
        snprintf(busy, sizeof busy, "member %d is in use", 1 - i);
        CHECK(sides[i].served == -UMBRA_ETIMEOUT && strstr(sides[i].detail, busy) != NULL);
        CHECK(sides[i].ended == 0);
    }
    CHECK(pthread_barrier_destroy(&both) == 0);
}

static void *serves_long(void *given)
{
    struct side *side = given;
    side->served = umbra_gpc_serve(side->member, LONG_MS);
    return NULL;
}

static void a_member_that_is_served_long(struct side *side)
{
    struct umbra_gpc_call call = call_of("nothing", 200);
    umbra_call begun, another = 0;
    uint64_t began;
    int ended = 0;
    doing = "a member that is served long";
    must(umbra_gpc_register(side->member, "nothing", does_nothing, NULL));
    must(umbra_gpc_start(side->member, &call, &begun));
    must(umbra_gpc_wait(side->member, begun, 60000, NULL));
    began = now_ms();
    CHECK(pthread_create(&side->thread, NULL, serves_long, side) == 0);
    /* Until the thread has the member. */
    while (umbra_gpc_serve(side->member, 0) == 0)
        sched_yield();
    CHECK(umbra_gpc_wait(side->member, begun, 100, NULL) == -UMBRA_ETIMEOUT);
    CHECK(umbra_gpc_exec(side->member, &call, NULL) == -UMBRA_ETIMEOUT);
    CHECK(umbra_gpc_start(side->member, &call, &another) == -UMBRA_ETIMEOUT && another == 0);
    CHECK(umbra_gpc_test(side->member, begun, &ended) == -UMBRA_EINUSE);
    CHECK(now_ms() - began < LONG_MS);
    /* What comes in turn goes on as ever. */
    call.timeout_ms = 60000;
    must(umbra_gpc_exec(side->member, &call, NULL));
    CHECK(now_ms() - began >= LONG_MS);
    CHECK(pthread_join(side->thread, NULL) == 0 && side->served == 0);
}

/* Runs until somebody else has looked at that. */
static int goes_on(void *user, struct umbra_gpc_work *work)
{
    struct side *side = user;
    (void)work;
    pthread_barrier_wait(side->both);
    pthread_barrier_wait(side->both);
    return 0;
}

static void a_member_whose_function_runs(struct side *side)
{
    pthread_barrier_t both;
    doing = "a member whose function runs";
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    side->both = &both;
    side->function = "goes on";
    must(umbra_gpc_register(side->member, side->function, goes_on, side));
    CHECK(pthread_create(&side->thread, NULL, calls_itself, side) == 0);
    pthread_barrier_wait(&both);
    CHECK(umbra_gpc_leave(side->member) == -UMBRA_EINUSE);
    pthread_barrier_wait(&both);
    CHECK(pthread_join(side->thread, NULL) == 0 && side->ended == 0);
    CHECK(pthread_barrier_destroy(&both) == 0);
    /* Nobody wants to leave any more, so it is served as ever. */
    must(umbra_gpc_serve(side->member, 0));
}

/* Functions that are called at the end of a thread use members as any other. */
static void at_the_end(void *given)
{
    struct side *side = given;
    struct umbra_gpc_call call = call_of("nothing", 60000);
    side->ended = umbra_gpc_exec(side->member, &call, NULL);
}

static void *ends(void *given)
{
    struct side *side = given;
    side->served = umbra_gpc_serve(side->member, 0);
    CHECK(pthread_setspecific(end_of_thread, side) == 0);
    return NULL;
}

static void a_thread_that_ends(struct side *side)
{
    doing = "the end of a thread";
    side->served = side->ended = 1;
    CHECK(pthread_key_create(&end_of_thread, at_the_end) == 0);
    CHECK(pthread_create(&side->thread, NULL, ends, side) == 0);
    CHECK(pthread_join(side->thread, NULL) == 0 && side->served == 0 && side->ended == 0);
    CHECK(pthread_key_delete(end_of_thread) == 0);
}

static void *serves_on(void *given)
{
    struct side *side = given;
    do
        side->served = umbra_gpc_serve(side->member, side->patience_ms);
    while (side->served == 0 || side->served == -UMBRA_ETIMEOUT);
    return NULL;
}

/* Threads that serve it in turn end with it, and its seat is free at once. */
static void a_member_that_is_left_while_it_is_served(umbra_station station, struct side *side, uint64_t patience_ms)
{
    struct side threads[2];
    int i;
    side->patience_ms = patience_ms;
    threads[0] = threads[1] = *side;
    doing = "a member that is left while it is served";
    for (i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i].thread, NULL, serves_on, &threads[i]) == 0);
    /* Until one of them has it. */
    while (umbra_gpc_serve(side->member, 0) == 0)
        sched_yield();
    must(umbra_gpc_leave(side->member));
    must(umbra_gpc_join(station, 0, NULL, &side->member));
    for (i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i].thread, NULL) == 0 && threads[i].served == -UMBRA_ESTALE);
}

int main(void)
{
    struct umbra_station_options options;
    struct side sides[MEMBERS];
    umbra_station station;
    uint32_t i;
    doing = "set up";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = MEMBERS;
    must(umbra_station_create(&options, &station));
    memset(sides, 0, sizeof sides);
    for (i = 0; i < MEMBERS; i++)
        must(umbra_gpc_join(station, i, NULL, &sides[i].member));
    functions_that_cross(sides);
    a_member_that_is_served_long(&sides[0]);
    a_member_whose_function_runs(&sides[0]);
    a_thread_that_ends(&sides[0]);
    a_member_that_is_left_while_it_is_served(station, &sides[0], 50);
    a_member_that_is_left_while_it_is_served(station, &sides[0], UMBRA_FOREVER);
    doing = "the end";
    for (i = 0; i < MEMBERS; i++)
        must(umbra_gpc_leave(sides[i].member));
    must(umbra_station_detach(station));
    printf("all is right\n");
    return 0;
}
