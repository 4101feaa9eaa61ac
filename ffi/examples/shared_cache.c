/* A slot cache that processes share: each loads what none has loaded, and one that is killed leaves everything to the others.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
/* A child that lives as long hangs. */
#define PATIENCE_S 60
#define SLOTS 3
#define SLOT_BYTES 64

/* What lies in the slots, in memory that all have mapped. */
static char *content;

/* Has data in a slot, which it loads if nobody has; tells whether it did. */
static int use(umbra_shared_cache cache, uint64_t data)
{
    uint32_t slot, found;
    must(umbra_shared_cache_alloc(cache, data, PATIENCE_MS, &slot, &found));
    CHECK(slot < SLOTS);
    if (found == UMBRA_FOUND_EMPTY) {
        snprintf(content + slot * SLOT_BYTES, SLOT_BYTES, "content of %lu", (unsigned long)data);
        must(umbra_shared_cache_remember(cache, data, PATIENCE_MS));
    }
    return found == UMBRA_FOUND_EMPTY;
}

static void holds(uint32_t slot, uint64_t data)
{
    char expected[SLOT_BYTES];
    snprintf(expected, sizeof expected, "content of %lu", (unsigned long)data);
    CHECK(strcmp(content + slot * SLOT_BYTES, expected) == 0);
}

static uint32_t references(umbra_shared_cache cache, uint64_t data)
{
    uint32_t count = 99;
    must(umbra_shared_cache_references(cache, data, PATIENCE_MS, &count));
    return count;
}

static uint32_t state(umbra_shared_cache cache, uint64_t data)
{
    uint32_t told = 99;
    must(umbra_shared_cache_state(cache, data, PATIENCE_MS, &told));
    return told;
}

static umbra_shared_cache attach(int memory)
{
    umbra_shared_cache cache;
    must(umbra_shared_cache_attach(memory, UMBRA_CACHE_FORGETFUL, &cache));
    return cache;
}

/* Forks a child that does this and says so; it lives until it is killed, or does not outlive `work`. */
static pid_t start(int memory, void (*work)(int memory, int said), int *says)
{
    int ends[2];
    pid_t pid;
    CHECK(pipe(ends) == 0);
    fflush(stdout);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        doing = "a child";
        close(ends[0]);
        work(memory, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    *says = ends[0];
    return pid;
}

static void say(int said)
{
    CHECK(write(said, "!", 1) == 1);
}

static void hear(int says)
{
    char byte;
    CHECK(read(says, &byte, 1) == 1);
}

static void end(pid_t pid, int says)
{
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(says);
}

static void kill_it(pid_t pid, int says)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    close(says);
}

static umbra_shared_cache cache_of(uint32_t contract, uint32_t slots, uint32_t processes)
{
    struct umbra_shared_cache_options options;
    umbra_shared_cache cache;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.contract = contract;
    options.slots = slots;
    options.processes = processes;
    must(umbra_shared_cache_create(&options, &cache));
    return cache;
}

/* ---- what is refused ---- */

/* Memory of one's own, sealed as that of a cache is, with these bytes. */
static int sealed(const void *bytes, size_t length)
{
    int memory = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0 && write(memory, bytes, length) == (ssize_t)length);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return memory;
}

static int attached(int memory)
{
    umbra_shared_cache cache = 7;
    int code = umbra_shared_cache_attach(memory, UMBRA_CACHE_FORGETFUL, &cache);
    CHECK(code == umbra_shared_cache_attach_or_succeed(memory, UMBRA_CACHE_FORGETFUL, NULL, NULL, &cache));
    CHECK(code != 0 && cache == 7);
    return code;
}

static void bad_options(void)
{
    struct umbra_shared_cache_options options;
    umbra_shared_cache cache;
    doing = "options";
    memset(&options, 0, sizeof options);
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_ESTRUCT);
    options.size = sizeof options;
    CHECK(umbra_shared_cache_create(NULL, &cache) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_EINVAL);
    options.slots = SLOTS;
    CHECK(umbra_shared_cache_create(&options, NULL) == -UMBRA_EINVAL);
    options.contract = 3;
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_EINVAL);
    options.contract = UMBRA_CACHE_STACK;
    options.processes = 31;
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_EINVAL);
    options.processes = 0xffffffff;
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_EINVAL);
    options.processes = 8;
    options.references = 32;
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_EINVAL);
    options.references = 31;
    options.slots = 0xffffffff;
    CHECK(umbra_shared_cache_create(&options, &cache) == -UMBRA_EINVAL);
}

/* Nothing is a cache but a whole one of its contract, and what is not is not touched. */
static void bad_descriptors(int memory)
{
    struct umbra_station_options options;
    static char bytes[1 << 16];
    umbra_shared_cache cache = 7;
    umbra_station station;
    ssize_t length;
    size_t cut;
    int other;

    doing = "descriptors";
    CHECK(attached(-1) == -UMBRA_EINVAL);
    other = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(other >= 0 && attached(other) == -UMBRA_ESYSTEM);
    CHECK(close(other) == 0 && attached(other) == -UMBRA_ESYSTEM);
    other = memfd_create("unsealed", MFD_CLOEXEC);
    CHECK(other >= 0 && ftruncate(other, 4096) == 0 && attached(other) == -UMBRA_ESYSTEM && close(other) == 0);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = 2;
    must(umbra_station_create(&options, &station));
    must(umbra_station_share(station, &other));
    CHECK(attached(other) == -UMBRA_EINVAL && close(other) == 0);
    CHECK(umbra_shared_cache_free(station, 1, 0) == -UMBRA_EKIND);
    must(umbra_station_detach(station));
    CHECK(umbra_shared_cache_attach(memory, UMBRA_CACHE_STACK, &cache) == -UMBRA_ECONFLICT && cache == 7);
    CHECK(umbra_shared_cache_attach(memory, 3, &cache) == -UMBRA_EINVAL && cache == 7);
    CHECK(umbra_shared_cache_attach(memory, UMBRA_CACHE_FORGETFUL, NULL) == -UMBRA_EINVAL);

    length = pread(memory, bytes, sizeof bytes, 0);
    CHECK(length > 1000 && length < (ssize_t)sizeof bytes);
    for (cut = 1; cut + 8 < (size_t)length; cut += 41) {
        other = sealed(bytes, cut);
        CHECK(attached(other) == -UMBRA_EINVAL && close(other) == 0);
    }
    memset(bytes + 8, 0xff, sizeof bytes - 8);
    other = sealed(bytes, (size_t)length);
    CHECK(attached(other) < 0 && close(other) == 0);
}

/* ---- two processes, of which one is killed ---- */

/* Holds data 1 three times, and begins to load data 2. */
static void load_and_begin(int memory, int said)
{
    umbra_shared_cache cache = attach(memory);
    struct umbra_shared_pin pin;
    uint32_t slot, found;
    CHECK(use(cache, 1) && !use(cache, 1));
    must(umbra_shared_cache_pin(cache, 1, PATIENCE_MS, &pin));
    CHECK(pin.found == UMBRA_FOUND_REMEMBERED && pin.data == 1);
    must(umbra_shared_cache_alloc(cache, 2, PATIENCE_MS, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);
    say(said);
    pause();
}

/* What was told of the fills of the dead. */
struct told {
    int times;
    uint32_t slot;
    uint64_t data;
};

static void note(void *user, uint32_t slot, uint64_t data)
{
    struct told *told = user;
    told->times++;
    told->slot = slot;
    told->data = data;
}

static void one_is_killed(umbra_shared_cache cache, int memory)
{
    struct umbra_shared_cache_reclaimed reclaimed;
    struct told told = {0, 0, 0};
    uint32_t slot, filling, found;
    pid_t pid;
    int says;

    pid = start(memory, load_and_begin, &says);
    hear(says);
    doing = "what another process has loaded";
    must(umbra_shared_cache_alloc(cache, 1, 0, &slot, &found));
    CHECK(found == UMBRA_FOUND_REMEMBERED && references(cache, 1) == 4);
    holds(slot, 1);
    must(umbra_shared_cache_alloc(cache, 2, 0, &filling, &found));
    CHECK(found == UMBRA_FOUND_ASSIGNED && filling != slot && state(cache, 2) == UMBRA_SLOT_FILLING);
    CHECK(umbra_shared_cache_wait_filled(cache, 2, 0) == -UMBRA_EFILLING);
    CHECK(umbra_shared_cache_wait_filled(cache, 2, 5) == -UMBRA_ETIMEOUT);
    reclaimed.size = sizeof reclaimed;
    must(umbra_shared_cache_reclaim(cache, PATIENCE_MS, note, &told, &reclaimed));
    CHECK(told.times == 0 && reclaimed.references == 0 && references(cache, 1) == 4);

    doing = "what a killed process held";
    kill_it(pid, says);
    reclaimed.size = 1;
    CHECK(umbra_shared_cache_reclaim(cache, PATIENCE_MS, note, &told, &reclaimed) == -UMBRA_ESTRUCT);
    CHECK(told.times == 0 && references(cache, 1) == 4 && state(cache, 2) == UMBRA_SLOT_FILLING);
    reclaimed.size = sizeof reclaimed;
    must(umbra_shared_cache_reclaim(cache, PATIENCE_MS, note, &told, &reclaimed));
    CHECK(told.times == 1 && told.slot == filling && told.data == 2);
    CHECK(reclaimed.references == 4 && reclaimed.fills == 1 && reclaimed.emptied == 0);
    CHECK(references(cache, 1) == 1 && references(cache, 2) == 1 && state(cache, 2) == UMBRA_SLOT_ABANDONED);
    must(umbra_shared_cache_reclaim(cache, 0, note, &told, NULL));
    CHECK(told.times == 1);

    CHECK(umbra_shared_cache_wait_filled(cache, 2, PATIENCE_MS) == -UMBRA_EABANDONED);
    CHECK(use(cache, 2));
    must(umbra_shared_cache_wait_filled(cache, 2, PATIENCE_MS));
    must(umbra_shared_cache_free(cache, 2, 0));
    must(umbra_shared_cache_free(cache, 2, 0));
    must(umbra_shared_cache_free(cache, 1, 0));
    CHECK(state(cache, 1) == UMBRA_SLOT_IDLE && state(cache, 2) == UMBRA_SLOT_IDLE && state(cache, 77) == UMBRA_SLOT_NONE);
}

/* Waits for a slot, while its parent has all of them. */
static void wait_for_slot(int memory, int said)
{
    umbra_shared_cache cache = attach(memory);
    uint32_t slot = 99, found = 99;
    CHECK(umbra_shared_cache_alloc(cache, 9, 0, &slot, &found) == -UMBRA_EFULL);
    CHECK(umbra_shared_cache_alloc(cache, 9, 5, &slot, &found) == -UMBRA_ETIMEOUT && slot == 99 && found == 99);
    CHECK(umbra_shared_cache_free(cache, 4, 0) == -UMBRA_EUNUSED);
    say(said);
    CHECK(use(cache, 9));
    must(umbra_shared_cache_wait_filled(cache, 5, PATIENCE_MS));
    must(umbra_shared_cache_leave(cache));
}

static void one_waits(umbra_shared_cache cache, int memory)
{
    uint32_t slot, found;
    pid_t pid;
    int says;
    doing = "who waits for a slot";
    CHECK(use(cache, 3) && use(cache, 4));
    must(umbra_shared_cache_alloc(cache, 5, 0, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);
    pid = start(memory, wait_for_slot, &says);
    hear(says);
    must(umbra_shared_cache_free(cache, 3, 0));
    must(umbra_shared_cache_remember(cache, 5, 0));
    end(pid, says);
    CHECK(references(cache, 9) == 0 && state(cache, 9) == UMBRA_SLOT_IDLE);
    must(umbra_shared_cache_free(cache, 4, 0));
    must(umbra_shared_cache_free(cache, 5, 0));
}

/* Takes a place, loads, and keeps it. */
static void stay(int memory, int said)
{
    uint32_t slot, found;
    must(umbra_shared_cache_alloc(attach(memory), (uint64_t)getpid(), PATIENCE_MS, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);
    say(said);
    pause();
}

/* All processes of a cache are killed, and it is used again. */
static void all_are_killed(int memory)
{
    struct umbra_shared_cache_statistics statistics;
    umbra_shared_cache cache = 7;
    struct told told = {0, 0, 0};
    pid_t first, second;
    int says[2];
    doing = "all are killed";
    first = start(memory, stay, &says[0]);
    hear(says[0]);
    second = start(memory, stay, &says[1]);
    hear(says[1]);
    CHECK(umbra_shared_cache_attach_or_succeed(memory, UMBRA_CACHE_FORGETFUL, note, &told, &cache) == -UMBRA_EFULL);
    kill_it(first, says[0]);
    kill_it(second, says[1]);
    CHECK(umbra_shared_cache_attach(memory, UMBRA_CACHE_FORGETFUL, &cache) == -UMBRA_EFULL && cache == 7);
    must(umbra_shared_cache_attach_or_succeed(memory, UMBRA_CACHE_FORGETFUL, note, &told, &cache));
    CHECK(told.times == 1 && (told.data == (uint64_t)first || told.data == (uint64_t)second));
    must(umbra_shared_cache_reclaim(cache, PATIENCE_MS, note, &told, NULL));
    CHECK(told.times == 2);
    statistics.size = sizeof statistics;
    must(umbra_shared_cache_statistics(cache, &statistics));
    CHECK(statistics.slots == SLOTS && statistics.processes == 1 && statistics.loads >= 8 && statistics.refused >= 2);
    must(umbra_shared_cache_leave(cache));
}

/* What a killed process held is taken back by those who wait, if they asked for that. */
static void one_is_killed_while_others_wait(void)
{
    umbra_shared_cache cache = cache_of(UMBRA_CACHE_FORGETFUL | UMBRA_SHARED_CACHE_RECLAIM, 1, 2);
    char detail[512];
    uint32_t slot, found;
    pid_t pid;
    int memory, says;
    doing = "a killed process, while others wait";
    must(umbra_shared_cache_share(cache, &memory));
    pid = start(memory, stay, &says);
    hear(says);
    CHECK(umbra_shared_cache_alloc(cache, 1, 5, &slot, &found) == -UMBRA_ETIMEOUT);
    CHECK(umbra_error_detail(detail, sizeof detail, NULL) == 0 && strstr(detail, "has 1 slots, of which it fills 1") != NULL);
    must(umbra_shared_cache_alloc(cache, (uint64_t)pid, 0, &slot, &found));
    CHECK(found == UMBRA_FOUND_ASSIGNED);
    kill_it(pid, says);
    CHECK(umbra_shared_cache_wait_filled(cache, (uint64_t)pid, PATIENCE_MS) == -UMBRA_EABANDONED);
    must(umbra_shared_cache_free(cache, (uint64_t)pid, 0));

    pid = start(memory, stay, &says);
    hear(says);
    kill_it(pid, says);
    must(umbra_shared_cache_alloc(cache, 1, PATIENCE_MS, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);
    must(umbra_shared_cache_leave(cache));
    CHECK(close(memory) == 0);
}

/* What a reclaim told that was begun within another. */
struct within {
    umbra_shared_cache cache;
    int times, code;
    struct umbra_shared_cache_reclaimed done;
};

static void reclaim_within(void *user, uint32_t slot, uint64_t data)
{
    struct within *within = user;
    (void)slot;
    (void)data;
    within->times++;
    within->done.size = sizeof within->done;
    within->code = umbra_shared_cache_reclaim(within->cache, 0, NULL, NULL, &within->done);
}

/* What is taken back from one is told although the other is in the way. */
static void two_are_killed(void)
{
    struct umbra_shared_cache_reclaimed reclaimed;
    struct within within;
    pid_t first, second;
    int memory, says[2];
    doing = "two are killed";
    memset(&within, 0, sizeof within);
    within.cache = cache_of(UMBRA_CACHE_FORGETFUL, SLOTS, 3);
    must(umbra_shared_cache_share(within.cache, &memory));
    first = start(memory, stay, &says[0]);
    second = start(memory, stay, &says[1]);
    hear(says[0]);
    hear(says[1]);
    kill_it(first, says[0]);
    kill_it(second, says[1]);
    reclaimed.size = sizeof reclaimed;
    must(umbra_shared_cache_reclaim(within.cache, PATIENCE_MS, reclaim_within, &within, &reclaimed));
    CHECK(reclaimed.references == 1 && reclaimed.fills == 1 && reclaimed.emptied == 1);
    CHECK(within.times == 1 && within.code == -UMBRA_EBUSY);
    CHECK(within.done.references == 1 && within.done.fills == 1 && within.done.emptied == 1);
    must(umbra_shared_cache_leave(within.cache));
    CHECK(close(memory) == 0);
}

/* ---- in one process ---- */

static void pins_and_errors(umbra_shared_cache cache)
{
    struct umbra_shared_pin pin, other;
    uint32_t slot = 99, found = 99;
    int forgotten = 99;
    doing = "pins";
    CHECK(umbra_shared_cache_pin(cache, 6, 0, NULL) == -UMBRA_EINVAL && references(cache, 6) == 0);
    must(umbra_shared_cache_pin(cache, 6, 0, &pin));
    CHECK(pin.found == UMBRA_FOUND_EMPTY && pin.slot < SLOTS && pin.mark != 0);
    must(umbra_shared_cache_remember(cache, 6, 0));
    other = pin;
    other.mark ^= (uint64_t)1 << 32;
    CHECK(umbra_shared_cache_free_pin(cache, &other) == -UMBRA_ENOSLOT);
    other.mark = (uint64_t)-1;
    CHECK(umbra_shared_cache_free_pin(cache, &other) == -UMBRA_ENOSLOT);
    CHECK(umbra_shared_cache_free_pin(cache, NULL) == -UMBRA_EINVAL);
    must(umbra_shared_cache_free_pin(cache, &pin));
    CHECK(pin.mark == 0 && umbra_shared_cache_free_pin(cache, &pin) == -UMBRA_ENOSLOT);

    doing = "errors";
    CHECK(umbra_shared_cache_alloc(cache, 6, 0, NULL, &found) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_alloc(cache, 6, 0, &slot, NULL) == -UMBRA_EINVAL);
    CHECK(slot == 99 && found == 99 && references(cache, 6) == 0);
    CHECK(umbra_shared_cache_state(cache, 6, 0, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_references(cache, 6, 0, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_statistics(cache, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_share(cache, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_remember(cache, 6, 0) == -UMBRA_ENOTFILLING);
    CHECK(umbra_shared_cache_free(cache, 6, 0) == -UMBRA_EUNUSED);
    CHECK(umbra_shared_cache_free(cache, 77, 0) == -UMBRA_ENOSLOT);
    CHECK(umbra_shared_cache_wait_filled(cache, 77, PATIENCE_MS) == -UMBRA_ENOSLOT);

    doing = "forget";
    CHECK(umbra_shared_cache_forget(cache, 6, 0, (int *)(void *)((char *)&forgotten + 1)) == -UMBRA_EINVAL);
    CHECK(state(cache, 6) == UMBRA_SLOT_IDLE && forgotten == 99 && !use(cache, 6));
    CHECK(umbra_shared_cache_forget(cache, 6, 0, &forgotten) == -UMBRA_EINUSE && forgotten == 99);
    must(umbra_shared_cache_forget_later(cache, 6, 0, &forgotten));
    CHECK(forgotten == 1 && state(cache, 6) == UMBRA_SLOT_IN_USE);
    must(umbra_shared_cache_free(cache, 6, 0));
    CHECK(state(cache, 6) == UMBRA_SLOT_NONE);
    must(umbra_shared_cache_forget(cache, 6, 0, &forgotten));
    CHECK(forgotten == 0);
    must(umbra_shared_cache_alloc(cache, 6, 0, &slot, &found));
    must(umbra_shared_cache_abandon(cache, 6, 0));
    CHECK(umbra_shared_cache_wait_filled(cache, 6, PATIENCE_MS) == -UMBRA_EABANDONED);
    CHECK(umbra_shared_cache_forget(cache, 6, 0, NULL) == -UMBRA_EFILLING);
    must(umbra_shared_cache_free(cache, 6, 0));
}

/* Many at once: in order, up to the first that is refused. */
static void batches(umbra_shared_cache cache)
{
    static const uint64_t data[] = {20, 21, 20, 22, 23};
    struct umbra_shared_pin pins[5], again[4];
    char detail[512];
    size_t done = 99, i;

    doing = "a batch for which there are not enough slots";
    memset(pins, 0x5a, sizeof pins);
    CHECK(umbra_shared_cache_pin_all(cache, data, 5, PATIENCE_MS, pins, &done) == -UMBRA_EFULL && done == 4);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strstr(detail, "after 4 of the batch") != NULL);
    CHECK(pins[4].data == pins[4].mark && pins[4].slot == 0x5a5a5a5a && state(cache, 23) == UMBRA_SLOT_NONE);
    /* Those who wait for what is missing may hold what others wait for: first it is filled. */
    for (i = 0; i < done; i++) {
        CHECK(pins[i].data == data[i] && pins[i].mark != 0 && pins[i].slot < SLOTS);
        CHECK(pins[i].found == (i == 2 ? UMBRA_FOUND_ASSIGNED : UMBRA_FOUND_EMPTY));
        if (pins[i].found == UMBRA_FOUND_EMPTY) {
            snprintf(content + pins[i].slot * SLOT_BYTES, SLOT_BYTES, "content of %lu", (unsigned long)data[i]);
            must(umbra_shared_cache_remember(cache, data[i], PATIENCE_MS));
        }
    }
    for (i = 0; i < done; i++) {
        must(umbra_shared_cache_wait_filled(cache, data[i], PATIENCE_MS));
        holds(pins[i].slot, data[i]);
    }

    doing = "a batch of what is there";
    must(umbra_shared_cache_pin_all(cache, data, 4, 0, again, &done));
    CHECK(done == 4 && references(cache, 20) == 4 && references(cache, 21) == 2 && references(cache, 22) == 2);
    for (i = 0; i < 4; i++)
        CHECK(again[i].found == UMBRA_FOUND_REMEMBERED && again[i].slot == pins[i].slot);

    doing = "a batch is given back";
    must(umbra_shared_cache_free_pins(cache, pins, 4, &done));
    CHECK(done == 4 && references(cache, 20) == 2 && references(cache, 21) == 1 && references(cache, 22) == 1);
    for (i = 0; i < 4; i++)
        CHECK(pins[i].data == data[i] && pins[i].mark == 0);
    CHECK(umbra_shared_cache_free_pins(cache, pins, 4, &done) == -UMBRA_ENOSLOT && done == 0);
    must(umbra_shared_cache_free_pin(cache, &again[1]));
    CHECK(umbra_shared_cache_free_pins(cache, again, 4, &done) == -UMBRA_ENOSLOT && done == 1);
    CHECK(again[0].mark == 0 && again[2].mark != 0 && references(cache, 20) == 1);
    must(umbra_shared_cache_free_pins(cache, again + 2, 2, &done));
    CHECK(done == 2 && references(cache, 20) == 0 && references(cache, 21) == 0 && references(cache, 22) == 0);

    doing = "a batch is given back by its ids";
    must(umbra_shared_cache_pin_all(cache, data, 4, 0, pins, &done));
    must(umbra_shared_cache_free_all(cache, data, 3, 0, &done));
    CHECK(done == 3 && references(cache, 20) == 0 && references(cache, 21) == 0 && references(cache, 22) == 1);
    CHECK(umbra_shared_cache_free_all(cache, data + 3, 2, PATIENCE_MS, &done) == -UMBRA_ENOSLOT && done == 1);
    CHECK(umbra_shared_cache_free_all(cache, data, 4, PATIENCE_MS, &done) == -UMBRA_EUNUSED && done == 0);
    CHECK(state(cache, 20) == UMBRA_SLOT_IDLE && state(cache, 21) == UMBRA_SLOT_IDLE && state(cache, 22) == UMBRA_SLOT_IDLE);

    doing = "a batch of nothing, and of what is not there";
    must(umbra_shared_cache_pin_all(cache, NULL, 0, 0, NULL, &done));
    must(umbra_shared_cache_free_pins(cache, NULL, 0, &done));
    must(umbra_shared_cache_free_all(cache, NULL, 0, 0, &done));
    CHECK(done == 0);
    CHECK(umbra_shared_cache_pin_all(cache, data, 4, 0, pins, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_pin_all(cache, data, 4, 0, NULL, &done) == -UMBRA_EINVAL && done == 0);
    CHECK(references(cache, 20) == 0);
    CHECK(umbra_shared_cache_free_pins(cache, pins, 4, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_shared_cache_free_all(cache, data, 4, 0, NULL) == -UMBRA_EINVAL);
}

/* More than are done in one piece, up to what is counted, and after the end. */
static void long_batches(void)
{
    enum { SOME = 150, MOST = 1023 };
    static uint64_t data[MOST + 1];
    static struct umbra_shared_pin pins[MOST + 1];
    umbra_shared_cache cache;
    size_t done = 99, i;
    uint64_t mark;

    doing = "long batches";
    cache = cache_of(UMBRA_CACHE_STACK, SOME, 4);
    for (i = 0; i < SOME; i++)
        data[i] = (uint64_t)i << 33 | 5;
    must(umbra_shared_cache_pin_all(cache, data, SOME, 0, pins, &done));
    CHECK(done == SOME);
    for (i = 0; i < SOME; i++)
        CHECK(pins[i].data == data[i] && pins[i].found == UMBRA_FOUND_EMPTY && references(cache, data[i]) == 1);
    mark = pins[100].mark;
    pins[100].mark = 0;
    CHECK(umbra_shared_cache_free_pins(cache, pins, SOME, &done) == -UMBRA_ENOSLOT && done == 100);
    CHECK(pins[99].mark == 0 && pins[101].mark != 0 && state(cache, data[99]) == UMBRA_SLOT_NONE);
    pins[100].mark = mark;
    must(umbra_shared_cache_free_pins(cache, pins + 100, SOME - 100, &done));
    CHECK(done == SOME - 100 && state(cache, data[149]) == UMBRA_SLOT_NONE);

    /* What no other process can end is not waited for. */
    memset(data, 0, sizeof data);
    CHECK(umbra_shared_cache_pin_all(cache, data, MOST + 1, PATIENCE_MS, pins, &done) == -UMBRA_EFULL && done == MOST);
    CHECK(references(cache, 0) == MOST);
    CHECK(umbra_shared_cache_free_all(cache, data, MOST + 1, PATIENCE_MS, &done) == -UMBRA_ENOSLOT && done == MOST);

    must(umbra_shared_cache_interrupt(cache));
    CHECK(umbra_shared_cache_pin_all(cache, data, 2, PATIENCE_MS, pins, &done) == -UMBRA_EINTERRUPTED && done == 0);
    CHECK(umbra_shared_cache_free_pins(cache, pins, 2, &done) == -UMBRA_EINTERRUPTED && done == 0);
    CHECK(umbra_shared_cache_free_all(cache, data, 2, PATIENCE_MS, &done) == -UMBRA_EINTERRUPTED && done == 0);
    must(umbra_shared_cache_leave(cache));
    done = 99;
    CHECK(umbra_shared_cache_pin_all(cache, data, 2, 0, pins, &done) == -UMBRA_ESTALE && done == 0);
    done = 99;
    CHECK(umbra_shared_cache_free_pins(cache, pins, 2, &done) == -UMBRA_ESTALE && done == 0);
    done = 99;
    CHECK(umbra_shared_cache_free_all(cache, data, 2, 0, &done) == -UMBRA_ESTALE && done == 0);
}

static void another_contract(void)
{
    umbra_shared_cache cache;
    uint32_t slot, found;
    int i;
    doing = "a stack";
    cache = cache_of(UMBRA_CACHE_STACK, 1, 0);
    CHECK(umbra_shared_cache_remember(cache, 1, 0) == -UMBRA_ECONTRACT);
    CHECK(umbra_shared_cache_wait_filled(cache, 1, 0) == -UMBRA_ECONTRACT);
    CHECK(umbra_shared_cache_forget(cache, 1, 0, NULL) == -UMBRA_ECONTRACT);
    for (i = 0; i < 31; i++)
        must(umbra_shared_cache_alloc(cache, 1, 0, &slot, &found));
    CHECK(umbra_shared_cache_alloc(cache, 1, PATIENCE_MS, &slot, &found) == -UMBRA_EFULL);
    for (i = 0; i < 31; i++)
        must(umbra_shared_cache_free(cache, 1, 0));
    CHECK(state(cache, 1) == UMBRA_SLOT_NONE);
    must(umbra_shared_cache_interrupt(cache));
    CHECK(umbra_shared_cache_alloc(cache, 1, PATIENCE_MS, &slot, &found) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_shared_cache_free(cache, 1, PATIENCE_MS) == -UMBRA_EINTERRUPTED);
    must(umbra_shared_cache_reclaim(cache, 0, NULL, NULL, NULL));
    must(umbra_shared_cache_leave(cache));
    CHECK(umbra_shared_cache_leave(cache) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_alloc(cache, 1, 0, &slot, &found) == -UMBRA_ESTALE);
}

/* The place of its parent is refused to a child, which takes nothing from it, but attaches by what it inherits. */
static umbra_shared_cache inherited;

static void is_refused(int memory, int said)
{
    const uint64_t data = 1;
    struct umbra_shared_cache_statistics statistics;
    struct umbra_shared_pin pin;
    uint32_t slot, found;
    umbra_shared_cache own;
    size_t done = 99;
    (void)memory;
    statistics.size = sizeof statistics;
    CHECK(umbra_shared_cache_pin_all(inherited, &data, 1, 0, &pin, &done) == -UMBRA_ESTALE && done == 0);
    memset(&pin, 0, sizeof pin);
    CHECK(umbra_shared_cache_free_pins(inherited, &pin, 1, &done) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_free_all(inherited, &data, 1, 0, &done) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_alloc(inherited, 1, 0, &slot, &found) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_free(inherited, 1, 0) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_state(inherited, 1, 0, &slot) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_reclaim(inherited, 0, NULL, NULL, NULL) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_interrupt(inherited) == -UMBRA_ESTALE);
    CHECK(umbra_shared_cache_statistics(inherited, &statistics) == -UMBRA_ESTALE);
    must(umbra_shared_cache_share(inherited, &memory));
    must(umbra_shared_cache_leave(inherited));
    own = attach(memory);
    CHECK(references(own, 1) == 1 && umbra_shared_cache_free(own, 1, 0) == -UMBRA_EUNUSED);
    must(umbra_shared_cache_leave(own));
    say(said);
}

int main(void)
{
    umbra_shared_cache cache;
    int memory, says;
    pid_t pid;

    content = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(content != MAP_FAILED);
    bad_options();
    doing = "create";
    cache = cache_of(UMBRA_CACHE_FORGETFUL, SLOTS, 2);
    must(umbra_shared_cache_share(cache, &memory));
    bad_descriptors(memory);
    one_is_killed(cache, memory);
    one_waits(cache, memory);
    pins_and_errors(cache);
    batches(cache);
    long_batches();
    another_contract();

    doing = "a child";
    use(cache, 1);
    inherited = cache;
    pid = start(memory, is_refused, &says);
    end(pid, says);
    CHECK(references(cache, 1) == 1);

    doing = "leave";
    must(umbra_shared_cache_leave(cache));
    all_are_killed(memory);
    two_are_killed();
    one_is_killed_while_others_wait();
    CHECK(close(memory) == 0 && munmap(content, SLOTS * SLOT_BYTES) == 0);
    printf("all is right\n");
    return 0;
}
