/* Chained calls under the names of ARMCI that are refused: each by its code, before anything is sent, and its handle serves the
 * next call.
 *
 * A parent makes them, over many members in one child and a member in another one, which is killed. It checks what it is told and
 * exits with 0 only if all of it is right.
 */
#define _DEFAULT_SOURCE
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#define UMBRA_ARMCI_IMPLEMENTATION
#include "umbra_armci.h"

#define MEMBERS 18
/* Lives with nobody, and dies. */
#define MORTAL (MEMBERS - 1)
/* As many calls as a member may have open. */
#define OPEN 32

/* What all processes see. Each member writes its own numbers. */
static struct {
    /* Times that functions ran, of ARMCI and others. */
    volatile int runs[MEMBERS], bare[MEMBERS];
    /* How often they were told all processes of their call, and that there is no list. */
    volatile int listed[MEMBERS], unlisted[MEMBERS];
    /* Members other than the maker do not end their functions. */
    volatile int closed;
} *seen;

static umbra_member maker;
static int over;
static int all[MEMBERS + 1];
/* The handles of the functions, and of all calls. */
static int counting, rare, deeper, ending;
static gpc_hdl_t handle;
static uint64_t total;

/* Whether a process is told its call's list, the caller first and itself in it, or that there is none. */
static int is_told(int to)
{
    int list[MEMBERS], count = 0, at = 0, code = umbra_armci_list(list, MEMBERS, &count);
    if (code == -UMBRA_EINVAL) {
        seen->unlisted[to]++;
        return count == 0;
    }
    seen->listed[to]++;
    while (at < count && list[at] != to)
        at++;
    return code == 0 && count > 0 && list[0] == 0 && at < count &&
           (count == 1 || (umbra_armci_list(list, count - 1, &at) == -UMBRA_ESIZE && at == count));
}

/* Function and callback in one: how many members there are. */
static int count(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                 void *rdata, int rdlen, int *rdsize, int rtype)
{
    uint64_t ours = 1, theirs;
    (void)from, (void)hdr, (void)hlen, (void)dlen, (void)rhdr, (void)rhlen, (void)rhsize;
    if (rtype == GPC_WAIT) {
        memcpy(&ours, rdata, sizeof ours);
        memcpy(&theirs, data, sizeof theirs);
        ours += theirs;
    } else {
        if (rtype == GPC_INIT && !is_told(to))
            return 1;
        seen->runs[to] += rtype == GPC_INIT;
        if (seen->closed && to != 0)
            return GPC_PENDING;
    }
    if (rdlen > 0) {
        memcpy(rdata, &ours, sizeof ours);
        *rdsize = sizeof ours;
    }
    return GPC_DONE;
}

static int bare(void *user, struct umbra_gpc_work *work)
{
    (void)user;
    seen->bare[work->node]++;
    return 0;
}

/* Makes a call over a chain of so many others, as the header says, and answers with its code. */
static int go_deeper(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                     void *rdata, int rdlen, int *rdsize, int rtype)
{
    const struct umbra_gpc_work *work = umbra_armci_work();
    struct umbra_gpc_call call;
    uint32_t others[MEMBERS], number = 0;
    int others_count, at, code;
    (void)from, (void)hlen, (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rhsize, (void)rdlen;
    if (rtype == GPC_INIT) {
        memcpy(&others_count, hdr, sizeof others_count);
        for (at = 0; at < others_count; at++)
            others[at] = (uint32_t)(to + 1 + at);
        memset(&call, 0, sizeof call);
        call.size = sizeof call;
        call.function = "bare";
        call.members = others;
        call.count = (size_t)others_count;
        call.tree = UMBRA_TREE_CHAIN;
        call.timeout_ms = UMBRA_ARMCI_TIMEOUT_MS;
        return umbra_gpc_work_start(work, &call, &number) == 0 && number == 0 ? GPC_PENDING : 1;
    }
    code = umbra_gpc_work_answer(work, 0, NULL);
    if (code == -UMBRA_ETIMEOUT)
        return GPC_PENDING;
    memcpy(rdata, &code, sizeof code);
    *rdsize = sizeof code;
    return GPC_DONE;
}

static int end(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
               void *rdata, int rdlen, int *rdsize, int rtype)
{
    (void)to, (void)from, (void)hdr, (void)hlen, (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rhsize;
    (void)rdata, (void)rdlen, (void)rdsize, (void)rtype;
    over = 1;
    return GPC_DONE;
}

/* ---- calls ---- */

/* The arguments of a call. */
struct wanted {
    int func, callback;
    void *hdr;
    int hlen;
    void *data;
    int dlen;
    void *rhdr;
    int rhlen;
    void *rdata;
    int rdlen, idlen;
    int *idlst;
    int tree;
};

static int chained(const struct wanted *call, gpc_hdl_t *nbh)
{
    return ARMCI_Gpc_chained_exec(call->func, call->callback, call->hdr, call->hlen, call->data, call->dlen, call->rhdr,
                                  call->rhlen, call->rdata, call->rdlen, call->idlen, call->idlst, nbh, call->tree);
}

/* At the first of the list alone. */
static int alone(const struct wanted *call, gpc_hdl_t *nbh)
{
    return ARMCI_Gpc_exec(call->func, call->idlst[0], call->hdr, call->hlen, call->data, call->dlen, call->rhdr, call->rhlen,
                          call->rdata, call->rdlen, nbh);
}

typedef int (*way)(const struct wanted *call, gpc_hdl_t *nbh);

static struct wanted counted(int *idlst, int idlen)
{
    struct wanted call;
    memset(&call, 0, sizeof call);
    call.func = call.callback = counting;
    call.rdata = &total, call.rdlen = sizeof total;
    call.idlst = idlst, call.idlen = idlen;
    return call;
}

/* The handle takes the call, in which so many members take part. */
static void taken(const struct wanted *call, uint64_t members)
{
    total = 77;
    CHECK(handle.call == 0);
    must(chained(call, &handle));
    CHECK(handle.call != 0);
    must(ARMCI_Gpc_wait(&handle));
    CHECK(handle.call == 0 && total == members && handle.rdsize == sizeof total);
}

static int sum(const volatile int *of)
{
    int at, runs = 0;
    for (at = 0; at < MEMBERS; at++)
        runs += of[at];
    return runs;
}

static struct umbra_gpc_figures figures(void)
{
    struct umbra_gpc_figures told;
    memset(&told, 0, sizeof told);
    told.size = sizeof told;
    must(umbra_gpc_figures(maker, &told));
    return told;
}

/* The last failure is told in these words. */
static void says(const char *words)
{
    char detail[512];
    must(umbra_error_detail(detail, sizeof detail, NULL));
    if (strstr(detail, words) == NULL)
        fprintf(stderr, "it says: %s\n", detail);
    CHECK(strstr(detail, words) != NULL);
}

/* The call is refused with the handle and without, which sends nothing and leaves the handle as it is. */
static void not_begun(way make, const struct wanted *call, int code, const char *words)
{
    struct umbra_gpc_figures before = figures(), after;
    gpc_hdl_t as_before = handle;
    int runs = sum(seen->runs);
    total = 77;
    umbra_error_put(UMBRA_EINVAL, "something else");
    CHECK(make(call, &handle) == -code);
    says(words);
    if (as_before.call == 0)
        CHECK(make(call, NULL) == -code);
    must(umbra_gpc_serve(maker, 0));
    CHECK(memcmp(&handle, &as_before, sizeof handle) == 0 && total == 77);
    after = figures();
    CHECK(memcmp(&before, &after, sizeof after) == 0 && sum(seen->runs) == runs);
}

/* The call is refused, nobody has heard of it, and the handle takes the next one. */
static void refused(const char *scenario, way make, const struct wanted *call, int code, const char *words)
{
    struct wanted next = counted(all + 1, 2);
    int runs = sum(seen->runs);
    doing = scenario;
    not_begun(make, call, code, words);
    taken(&next, 3);
    CHECK(sum(seen->runs) == runs + 3);
}

static void refused_both(const char *scenario, const struct wanted *call, int code, const char *words)
{
    refused(scenario, chained, call, code, words);
    refused(scenario, alone, call, code, words);
}

/* ---- what is refused ---- */

static void members(void)
{
    static int doubles[3] = {1, 2, 1}, own[3] = {0, 2, 0}, stranger[1] = {MEMBERS}, negative[1] = {-1};
    struct wanted call = counted(doubles, 3);
    refused("s14", chained, &call, UMBRA_EINVAL, "member 1 is listed at positions 1 and 3");
    call.idlst = own;
    refused("s14", chained, &call, UMBRA_EINVAL, "member 0 is listed at positions");
    call = counted(stranger, 1);
    refused_both("s16", &call, UMBRA_EINVAL, "member 18 is not known");
    call = counted(negative, 1);
    refused_both("s16", &call, UMBRA_EINVAL, "no process has this number: -1");
    call = counted(NULL, 2);
    refused("s16", chained, &call, UMBRA_EINVAL, "a list at NULL, of length: 2");
    call = counted(all, -1);
    refused("s16", chained, &call, UMBRA_EINVAL, "a list of length: -1");
}

static void lengths(void)
{
    static char bytes[ARMCI_GPC_DLEN];
    static const int negative[] = {-1, INT_MIN};
    struct wanted good = counted(all + 1, 3), call = good;
    size_t at;
    call.hdr = bytes, call.hlen = ARMCI_GPC_HLEN;
    refused_both("s15", &call, UMBRA_ETOOLONG, "a header of 1025 bytes, at most 1024");
    call.hlen = ARMCI_GPC_HLEN - 1;
    taken(&call, 4);
    must(alone(&call, NULL));
    call = good;
    call.rhdr = bytes, call.rhlen = ARMCI_GPC_HLEN;
    refused_both("s15", &call, UMBRA_ETOOLONG, "a header of the reply of 1025 bytes, at most 1024");
    call.rhlen = ARMCI_GPC_HLEN - 1;
    taken(&call, 4);
    call = good;
    call.data = bytes, call.dlen = ARMCI_GPC_DLEN;
    refused_both("s18", &call, UMBRA_ETOOLONG, "data of 65536 bytes, at most 65535");
    /* That is more than members here have room for. */
    call.dlen = ARMCI_GPC_DLEN - 1;
    refused_both("s18", &call, UMBRA_ETOOLONG, "the call needs");
    call.dlen = 2 << 10;
    taken(&call, 4);
    call = good;
    call.rdata = bytes, call.rdlen = ARMCI_GPC_DLEN;
    refused_both("s18", &call, UMBRA_ETOOLONG, "data of the reply of 65536 bytes, at most 65535");

    call = good, call.hlen = 1;
    refused_both("s16", &call, UMBRA_EINVAL, "a header of 1 bytes at NULL");
    call = good, call.dlen = 1;
    refused_both("s16", &call, UMBRA_EINVAL, "data of 1 bytes at NULL");
    call = good, call.rhlen = 1;
    refused_both("s16", &call, UMBRA_EINVAL, "a header of the reply of 1 bytes at NULL");
    call = good, call.rdata = NULL;
    refused_both("s16", &call, UMBRA_EINVAL, "data of the reply of 8 bytes at NULL");
    for (at = 0; at < sizeof negative / sizeof *negative; at++) {
        call = good, call.hdr = bytes, call.hlen = negative[at];
        refused_both("s16", &call, UMBRA_EINVAL, "a header of -");
        call = good, call.data = bytes, call.dlen = negative[at];
        refused_both("s16", &call, UMBRA_EINVAL, "data of -");
        call = good, call.rhdr = bytes, call.rhlen = negative[at];
        refused_both("s16", &call, UMBRA_EINVAL, "a header of the reply of -");
        call = good, call.rdlen = negative[at];
        refused_both("s16", &call, UMBRA_EINVAL, "data of the reply of -");
    }
}

static void functions(void)
{
    static const int none[] = {-200, -99, 7, INT_MIN, INT_MAX};
    static char length;
    struct wanted good = counted(all + 1, 3), call;
    size_t at;
    for (at = 0; at < sizeof none / sizeof *none; at++) {
        call = good, call.func = none[at];
        refused_both("s16", &call, UMBRA_ENOFUNCTION, "no function has this handle: ");
        call = good, call.callback = none[at];
        refused("s16", chained, &call, UMBRA_ENOFUNCTION, "no function has this handle: ");
    }
    call = good, call.func = 0;
    refused_both("s16", &call, UMBRA_ENOFUNCTION, "no function has this handle: 0");
    /* Replies that nobody combines; the maker alone combines nothing. */
    call = good, call.callback = 0;
    refused("s16", chained, &call, UMBRA_EINVAL, "a reply needs a callback");
    call.idlst = all, call.idlen = 2;
    refused("s16", chained, &call, UMBRA_EINVAL, "a reply needs a callback");
    call.idlen = 1;
    taken(&call, 1);
    call.idlen = 0;
    taken(&call, 1);
    call = good, call.callback = 0, call.rdlen = 0, call.rhdr = &length, call.rhlen = 1;
    refused("s16", chained, &call, UMBRA_EINVAL, "a reply needs a callback");
    /* The others have it, the maker not any more. */
    call = good, call.func = rare;
    taken(&call, 4);
    CHECK(ARMCI_Gpc_release(rare) == 0);
    refused_both("s16", &call, UMBRA_ENOFUNCTION, "no function has this handle: ");
    CHECK(ARMCI_Gpc_release(rare) == -UMBRA_ENOFUNCTION);
    call = good, call.callback = rare;
    refused("s16", chained, &call, UMBRA_ENOFUNCTION, "no function has this handle: ");
    CHECK((ARMCI_Gpc_register)(count) == rare);
    call = good, call.func = rare;
    CHECK(ARMCI_Gpc_release(rare) == 0 && umbra_armci_register(count, "rare") == rare);
    taken(&call, 4);
}

/* Handles of calls: one that has a call takes no other, and one whose call is over has none. */
static void handles(void)
{
    struct wanted call = counted(all + 1, 2);
    gpc_hdl_t copies[2];
    int runs = sum(seen->runs);
    doing = "s16, a handle that is live";
    seen->closed = 1;
    must(chained(&call, &handle));
    while (sum(seen->runs) < runs + 3)
        CHECK(ARMCI_Gpc_test(&handle) == 0);
    not_begun(chained, &call, UMBRA_EINUSE, "the handle has a call that goes on");
    not_begun(alone, &call, UMBRA_EINUSE, "the handle has a call that goes on");
    seen->closed = 0;
    copies[0] = copies[1] = handle;
    total = 77;
    CHECK(ARMCI_Gpc_wait(&handle) == 0 && total == 3);
    taken(&call, 3);
    doing = "s16, a handle that was released";
    total = 77;
    CHECK(ARMCI_Gpc_test(&copies[0]) == -UMBRA_ESTALE && ARMCI_Gpc_wait(&copies[0]) == -UMBRA_ESTALE && total == 77);
    CHECK(chained(&call, &copies[1]) == -UMBRA_EINUSE);
    /* Now it has none. */
    CHECK(chained(&call, &copies[0]) == 0 && ARMCI_Gpc_wait(&copies[0]) == 0 && total == 3);
}

/* What the tree says of each position. */
static int stated[4];

static int parent_of(int count_of, int position)
{
    return position < count_of ? stated[position] : -1;
}

static void trees(void)
{
    static const struct {
        int parents[4];
        const char *words;
    } bad[] = {
        {{-1, 2, 1, 0}, "position 1 of the tree is its own ancestor"},
        {{-1, 1, 0, 0}, "position 1 of the tree is its own ancestor"},
        {{0, 0, 0, 0}, "position 0 of the tree is its own ancestor"},
        {{-1, 99, 0, 0}, "position 1 of the tree or its parent is no position"},
        {{-1, 0, -1, 0}, "position 2 of the tree has no parent"},
        {{-1, 2, 3, 2}, "position 1 of the tree cannot be reached"},
    };
    static const struct umbra_gpc_edge doubles[] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}}, ring[] = {{0, 1}, {2, 3}, {3, 2}};
    static const struct umbra_gpc_edge comb[] = {{0, 1}, {1, 3}, {1, 2}};
    static const int none[] = {77, -1, INT_MIN, INT_MAX};
    struct wanted call = counted(all + 1, 3);
    struct umbra_gpc_figures before, after;
    uint32_t parents[4];
    size_t at, position;
    call.tree = GPC_TREE_CHAIN + 1;
    refused("s17", chained, &call, UMBRA_EINVAL, "no tree has this number: 4");
    CHECK(ARMCI_Gpc_register_tree(NULL) == -UMBRA_EINVAL);
    CHECK(ARMCI_Gpc_register_tree(parent_of) == call.tree);
    for (at = 0; at < sizeof bad / sizeof *bad; at++) {
        memcpy(stated, bad[at].parents, sizeof stated);
        refused("s17", chained, &call, UMBRA_EINVAL, bad[at].words);
    }
    /* Two parents can be said in lists of children only, of which no parents can be made. */
    before = figures();
    CHECK(umbra_gpc_parents(doubles, 4, parents, 4) == -UMBRA_EINVAL);
    says("position 3 of the tree has two parents");
    after = figures();
    CHECK(memcmp(&before, &after, sizeof after) == 0);
    must(umbra_gpc_parents(ring, 3, parents, 4));
    for (position = 0; position < 4; position++)
        stated[position] = (int)parents[position];
    refused("s17", chained, &call, UMBRA_EINVAL, "position 2 of the tree is its own ancestor");
    must(umbra_gpc_parents(comb, 3, parents, 4));
    for (position = 0; position < 4; position++)
        stated[position] = (int)parents[position];
    taken(&call, 4);
    for (at = 0; at < sizeof none / sizeof *none; at++) {
        call.tree = none[at];
        refused("s17", chained, &call, UMBRA_EINVAL, "no tree has this number: ");
    }
}

static void limits(void)
{
    /* Sixteen classes are fifteen levels below the maker. */
    struct wanted call = counted(all, 17);
    int others, code = 77, runs;
    call.tree = GPC_TREE_CHAIN;
    refused("s18", chained, &call, UMBRA_ETOOLONG, "ends 16 levels below the maker of the outermost call, at most 15");
    call.idlen = 16;
    taken(&call, 16);
    call = counted(all, MEMBERS + 1);
    refused("s18", chained, &call, UMBRA_ETOOLONG, "19 members, at most 18");
    call.idlen = MEMBERS, call.tree = GPC_TREE_FLAT;
    taken(&call, MEMBERS);
    /* A call that a handler makes goes on two levels below the maker of its own: thirteen are left. */
    doing = "s18, calls within calls";
    for (others = 13; others <= 14; others++) {
        runs = sum(seen->bare);
        must(ARMCI_Gpc_exec(deeper, 1, &others, sizeof others, NULL, 0, NULL, 0, &code, sizeof code, &handle));
        must(ARMCI_Gpc_wait(&handle));
        CHECK(code == (others == 13 ? 0 : -UMBRA_ETOOLONG));
        CHECK(sum(seen->bare) == runs + (others == 13 ? 14 : 0));
    }
    call = counted(all, 4);
    taken(&call, 4);
}

/* A list for which a request has no room goes in parts, and its call is done as any other. */
static void lists(void)
{
    static char bytes[ARMCI_GPC_DLEN];
    struct wanted call = counted(all, MEMBERS);
    int least = 0, most = ARMCI_GPC_DLEN - 1, listed = sum(seen->listed), unlisted = sum(seen->unlisted);
    doing = "d13";
    taken(&call, MEMBERS);
    CHECK(sum(seen->listed) == listed + MEMBERS && sum(seen->unlisted) == unlisted);
    /* The longest data that is taken with a list of this length. */
    call.data = bytes;
    while (most - least > 1) {
        call.dlen = (least + most) / 2;
        if (chained(&call, NULL) == 0) {
            least = call.dlen;
        } else {
            says("the call needs");
            most = call.dlen;
        }
    }
    for (call.dlen = least - 8; call.dlen <= least; call.dlen += 8) {
        listed = sum(seen->listed), unlisted = sum(seen->unlisted);
        taken(&call, MEMBERS);
        CHECK(sum(seen->listed) == listed + (call.dlen < least ? MEMBERS : 0));
        CHECK(sum(seen->unlisted) == unlisted + (call.dlen < least ? 0 : MEMBERS));
    }
    CHECK(umbra_armci_list(all, MEMBERS, &least) == -UMBRA_EINVAL && umbra_armci_list(all, 1, NULL) == -UMBRA_EINVAL);
}

/* More calls than may be open: the next one is taken when one has ended. */
static void too_many(void)
{
    static gpc_hdl_t open[OPEN];
    static uint64_t totals[OPEN];
    struct wanted call = counted(all + 1, 1);
    int at, runs = sum(seen->runs);
    doing = "s19";
    seen->closed = 1;
    for (at = 0; at < OPEN; at++) {
        call.rdata = &totals[at];
        must(chained(&call, &open[at]));
    }
    while (sum(seen->runs) < runs + 2 * OPEN)
        must(umbra_gpc_serve(maker, 1));
    call.rdata = &total;
    not_begun(chained, &call, UMBRA_EFULL, "too many calls are open here");
    not_begun(alone, &call, UMBRA_EFULL, "too many calls are open here");
    seen->closed = 0;
    must(ARMCI_Gpc_wait(&open[0]));
    must(chained(&call, &handle));
    for (at = 1; at < OPEN; at++)
        must(ARMCI_Gpc_wait(&open[at]));
    must(ARMCI_Gpc_wait(&handle));
    for (at = 0; at < OPEN; at++)
        CHECK(totals[at] == 2);
    CHECK(total == 2 && figures().open == 0 && sum(seen->runs) == runs + 2 * (OPEN + 1));
}

/* The dead are left out of a call that wants that, and named. */
static void leave_out(void)
{
    static const uint32_t listed[2] = {MORTAL, 1};
    struct umbra_gpc_call call;
    struct umbra_gpc_answer answer;
    uint32_t missed[2] = {99, 99};
    doing = "s16, left out";
    memset(&call, 0, sizeof call);
    memset(&answer, 0, sizeof answer);
    call.size = sizeof call, answer.size = sizeof answer;
    call.function = "bare";
    call.members = listed, call.count = 2;
    call.mode = UMBRA_GPC_SKIP_DEAD;
    answer.unreached_members = missed, answer.unreached_capacity = 2;
    must(umbra_gpc_exec(maker, &call, &answer));
    CHECK(answer.ok == 2 && answer.failed == 0 && answer.unreached == 1 && answer.unknown == 0);
    CHECK(answer.unreached_count == 1 && missed[0] == MORTAL && missed[1] == 99);
}

static void the_dead(pid_t child)
{
    static int with_it[2] = {MORTAL, 1};
    struct wanted call = counted(with_it, 2);
    int status;
    doing = "s16";
    taken(&call, 3);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    /* It sees who has died. */
    must(umbra_gpc_serve(maker, 1000));
    refused_both("s16", &call, UMBRA_EPEER, "member 17 is dead");
    leave_out();
}

/* ---- who takes part ---- */

/* Sits at these places; there are handlers for all. */
static umbra_member sit(umbra_station station, uint32_t node, uint32_t last)
{
    umbra_member member;
    must(umbra_gpc_join(station, node, NULL, &member));
    must(umbra_armci_use(member, node));
    while (node++ < last)
        must(umbra_gpc_house(member, node));
    must(umbra_gpc_register(member, "bare", bare, NULL));
    counting = ARMCI_Gpc_register(count);
    deeper = ARMCI_Gpc_register(go_deeper);
    ending = ARMCI_Gpc_register(end);
    rare = umbra_armci_register(count, "rare");
    CHECK(counting == -100 && deeper == -101 && ending == -102 && rare == -103);
    return member;
}

static pid_t child_at(int descriptor, uint32_t node, uint32_t last)
{
    pid_t parent = getpid(), child = fork();
    umbra_station station;
    umbra_member member;
    CHECK(child >= 0);
    if (child != 0)
        return child;
    doing = "a child";
    must(umbra_station_attach(descriptor, &station));
    member = sit(station, node, last);
    while (!over && getppid() == parent)
        must(umbra_gpc_serve(member, 20));
    must(umbra_gpc_serve(member, 0));
    must(umbra_gpc_leave(member));
    exit(0);
}

int main(void)
{
    struct umbra_station_options options;
    umbra_station station;
    int descriptor, status, at;
    pid_t house, mortal;
    doing = "set up";
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(seen != MAP_FAILED);
    for (at = 0; at <= MEMBERS; at++)
        all[at] = at;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = MEMBERS;
    must(umbra_station_create(&options, &station));
    must(umbra_station_share(station, &descriptor));
    house = child_at(descriptor, 1, MORTAL - 1);
    mortal = child_at(descriptor, MORTAL, MORTAL);
    maker = sit(station, 0, 0);
    ARMCI_Gpc_init_handle(&handle);
    members();
    lengths();
    functions();
    handles();
    trees();
    limits();
    lists();
    too_many();
    the_dead(mortal);
    doing = "the end";
    must(ARMCI_Gpc_exec(ending, 1, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL));
    CHECK(waitpid(house, &status, 0) == house && status == 0);
    must(umbra_gpc_leave(maker));
    must(umbra_station_detach(station));
    printf("all is right\n");
    return 0;
}
