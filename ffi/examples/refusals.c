/* Chained calls in C that are refused: each by its code, before anything is sent, and the next call is taken.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#include "check.h"

#define MEMBERS 18
/* Lives with nobody, and leaves. */
#define MORTAL (MEMBERS - 1)
#define PATIENCE_MS 60000
/* As many calls as a member may have open. */
#define OPEN 32

static umbra_station station;
/* The one that makes the calls, the one in whose house most others live, and the mortal. */
static umbra_member maker, house, mortal;
static uint32_t all[MEMBERS + 1];
/* Times that functions ran, at whichever member. */
static unsigned ran;

static int count(void *user, struct umbra_gpc_work *work)
{
    uint64_t ours = 1, theirs;
    (void)user;
    if (work->phase == UMBRA_GPC_WAIT) {
        memcpy(&ours, work->reply_data, sizeof ours);
        memcpy(&theirs, work->child_data, sizeof theirs);
        ours += theirs;
    } else {
        ran++;
    }
    if (work->reply_data_capacity > 0) {
        memcpy(work->reply_data, &ours, sizeof ours);
        work->reply_data_length = sizeof ours;
    }
    return 0;
}

static struct umbra_gpc_call over(const uint32_t *members, size_t count_of)
{
    struct umbra_gpc_call call;
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = "count";
    call.callback = "count";
    call.members = members;
    call.count = count_of;
    call.reply_data = sizeof(uint64_t);
    call.timeout_ms = PATIENCE_MS;
    return call;
}

/* Calls within calls that were refused, and what was said of the last one. */
static unsigned too_deep;
static char how_deep[512];

/* Has itself run at the other one of two members, within the call that it runs for, as often as its header says. */
static int nest(void *user, struct umbra_gpc_work *work)
{
    struct umbra_gpc_call call;
    uint32_t left, other = 1 - work->node, number;
    int code;
    (void)user;
    memcpy(&left, work->header, sizeof left);
    if (work->phase == UMBRA_GPC_INIT) {
        ran++;
        if (left-- == 0)
            return 0;
        call = over(&other, 1);
        call.function = "nest", call.callback = NULL, call.reply_data = 0;
        call.header = &left, call.header_length = sizeof left;
        call.mode = UMBRA_GPC_COORDINATE;
        return umbra_gpc_work_start(work, &call, &number) == 0 ? UMBRA_GPC_PENDING : 1;
    }
    code = umbra_gpc_work_answer(work, 0, NULL);
    if (code == -UMBRA_ETOOLONG) {
        too_deep++;
        return umbra_error_detail(how_deep, sizeof how_deep, NULL) == 0 ? 0 : 2;
    }
    return code == -UMBRA_ETIMEOUT ? UMBRA_GPC_PENDING : code == 0 ? 0 : 3;
}

static umbra_member sit(uint32_t node)
{
    umbra_member member;
    must(umbra_gpc_join(station, node, NULL, &member));
    must(umbra_gpc_register(member, "count", count, NULL));
    must(umbra_gpc_register(member, "nest", nest, NULL));
    return member;
}

static struct umbra_gpc_answer room_for(uint64_t *total)
{
    struct umbra_gpc_answer answer;
    memset(&answer, 0, sizeof answer);
    answer.size = sizeof answer;
    answer.data = total;
    answer.data_capacity = sizeof *total;
    return answer;
}

static void others(void)
{
    must(umbra_gpc_serve(house, 0));
    if (mortal != 0)
        must(umbra_gpc_serve(mortal, 0));
}

static void ends(umbra_call begun)
{
    int ended = 0;
    while (!ended) {
        must(umbra_gpc_test(maker, begun, &ended));
        others();
    }
}

/* Waits for a call in which so many members take part. */
static void ends_well(umbra_call begun, uint64_t members)
{
    struct umbra_gpc_answer answer;
    uint64_t total = 0;
    ends(begun);
    answer = room_for(&total);
    must(umbra_gpc_wait(maker, begun, 0, &answer));
    CHECK(answer.ok == members && total == members);
}

static void taken(const struct umbra_gpc_call *call, uint64_t members)
{
    umbra_call begun = 0;
    must(umbra_gpc_start(maker, call, &begun));
    ends_well(begun, members);
}

static struct umbra_gpc_figures figures_of(umbra_member member)
{
    struct umbra_gpc_figures figures;
    memset(&figures, 0, sizeof figures);
    figures.size = sizeof figures;
    must(umbra_gpc_figures(member, &figures));
    return figures;
}

/* The call is refused by both functions that make it, and says why; nobody hears of it, and the next one is taken. */
static void refused(const char *scenario, const struct umbra_gpc_call *call, int code, const char *words)
{
    static const uint32_t two[2] = {1, 2};
    struct umbra_gpc_call next = over(two, 2);
    struct umbra_gpc_figures before = figures_of(maker), there = figures_of(house), after;
    struct umbra_gpc_answer answer, as_before;
    uint64_t total = 77;
    umbra_call begun = 0;
    unsigned ran_before = ran;
    char detail[512] = "";
    doing = scenario;
    CHECK(umbra_gpc_start(maker, call, &begun) == -code && begun == 0);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    if (strstr(detail, words) == NULL)
        fprintf(stderr, "it says: %s\n", detail);
    CHECK(strstr(detail, words) != NULL);
    answer = as_before = room_for(&total);
    CHECK(umbra_gpc_exec(maker, call, &answer) == -code);
    CHECK(memcmp(&answer, &as_before, sizeof answer) == 0 && total == 77);
    must(umbra_gpc_serve(maker, 0));
    others();
    after = figures_of(maker);
    CHECK(memcmp(&before, &after, sizeof after) == 0);
    after = figures_of(house);
    CHECK(memcmp(&there, &after, sizeof after) == 0);
    CHECK(ran == ran_before);
    taken(&next, 3);
    CHECK(ran == ran_before + 3);
}

static void members(void)
{
    static const uint32_t doubles[3] = {1, 2, 1}, own[3] = {0, 2, 0}, strangers[2] = {1, MEMBERS};
    struct umbra_gpc_call call = over(doubles, 3);
    refused("s14", &call, UMBRA_EINVAL, "member 1 is listed at positions 1 and 3");
    call.mode = UMBRA_GPC_DEDUP;
    taken(&call, 3);
    call = over(own, 3);
    refused("s14", &call, UMBRA_EINVAL, "member 0 is listed at positions");
    call = over(strangers, 2);
    refused("s16", &call, UMBRA_EINVAL, "member 18 is not known");
    call.members = NULL;
    refused("s16", &call, UMBRA_EINVAL, "list");
}

static void lengths(void)
{
    static char bytes[32 << 10];
    struct umbra_gpc_call good = over(all, 4), call = good;
    call.header = bytes, call.header_length = 1025;
    refused("s15", &call, UMBRA_ETOOLONG, "a header of 1025 bytes, at most 1024");
    call.header_length = 1024;
    taken(&call, 4);
    call.header = NULL, call.header_length = 1;
    refused("s16", &call, UMBRA_EINVAL, "null");
    call = good;
    call.data_length = 1;
    refused("s16", &call, UMBRA_EINVAL, "null");
    /* A negative length is more than all memory. */
    call.data = bytes, call.data_length = (size_t)-1;
    refused("s16", &call, UMBRA_EINVAL, "null");
    call = good;
    call.header = bytes, call.header_length = (size_t)-1;
    refused("s16", &call, UMBRA_EINVAL, "null");
    call = good;
    call.reply_header = (size_t)-1;
    refused("s16", &call, UMBRA_ETOOLONG, "a reply can have a header of 65535 bytes");
    call = good;
    call.reply_data = (size_t)-1;
    refused("s16", &call, UMBRA_ETOOLONG, "and data of 4 GiB");
    call = good;
    call.data = bytes, call.data_length = sizeof bytes;
    refused("s18", &call, UMBRA_ETOOLONG, "the call needs");
    call.data_length = 2 << 10;
    taken(&call, 4);
    call = good;
    call.reply_header = 65536;
    refused("s18", &call, UMBRA_ETOOLONG, "a reply can have a header of 65535 bytes");
    call = good;
    call.reply_data = 1 << 20;
    refused("s18", &call, UMBRA_ETOOLONG, "the call needs");
}

static void functions(void)
{
    struct umbra_gpc_call good = over(all, 4), call = good;
    call.function = "nobody's";
    refused("s16", &call, UMBRA_ENOFUNCTION, "no function of tag");
    call.function = NULL;
    refused("s16", &call, UMBRA_EINVAL, "function is null");
    call = good;
    call.callback = "nobody's";
    refused("s16", &call, UMBRA_ENOFUNCTION, "no callback of tag");
    call.callback = NULL;
    refused("s16", &call, UMBRA_EINVAL, "a reply needs a callback");
    call.reply_data = 0, call.reply_header = 1;
    refused("s16", &call, UMBRA_EINVAL, "a reply needs a callback");
    /* The maker alone combines nothing. */
    call.reply_data = sizeof(uint64_t), call.count = 1;
    taken(&call, 1);
    /* The others have it, the maker not any more. */
    must(umbra_gpc_register(maker, "rare", count, NULL));
    must(umbra_gpc_register(house, "rare", count, NULL));
    call = good;
    call.function = "rare";
    taken(&call, 4);
    must(umbra_gpc_release(maker, "rare"));
    refused("s16", &call, UMBRA_ENOFUNCTION, "no function of tag");
    must(umbra_gpc_register(maker, "rare", count, NULL));
    taken(&call, 4);
    call = good;
    call.mode = 1 << 20;
    refused("s16", &call, UMBRA_EINVAL, "no way to treat a call");
    call = good;
    call.timeout_ms = (uint64_t)UMBRA_GPC_LONGEST_MS + 1000;
    refused("s41", &call, UMBRA_EINVAL, "a call may take");
    call = good;
    call.size = 8;
    refused("s16", &call, UMBRA_ESTRUCT, "structure announces 8 bytes");
}

/* A call that is over. */
static void handles(void)
{
    struct umbra_gpc_call call = over(all, 4);
    struct umbra_gpc_figures before, after;
    umbra_call begun;
    int ended = 77;
    doing = "s16, a handle that was released";
    must(umbra_gpc_start(maker, &call, &begun));
    ends_well(begun, 4);
    before = figures_of(maker);
    CHECK(umbra_gpc_wait(maker, begun, 0, NULL) == -UMBRA_ESTALE && umbra_gpc_cancel(maker, begun) == -UMBRA_ESTALE);
    CHECK(umbra_gpc_test(maker, begun, &ended) == -UMBRA_ESTALE && ended == 77);
    after = figures_of(maker);
    CHECK(memcmp(&before, &after, sizeof after) == 0);
    must(umbra_gpc_start(maker, &call, &begun));
    ends_well(begun, 4);
}

/* What the tree says of position; user has the parents of all. */
static uint32_t parent_of(void *user, uint32_t count_of, uint32_t position)
{
    return position < count_of ? ((const uint32_t *)user)[position] : UMBRA_TREE_ROOT;
}

static void trees(void)
{
    static const struct {
        uint32_t parents[4];
        const char *words;
    } bad[] = {
        {{UMBRA_TREE_ROOT, 2, 1, 0}, "position 1 of the tree is its own ancestor"},
        {{UMBRA_TREE_ROOT, 1, 0, 0}, "position 1 of the tree is its own ancestor"},
        {{0, 0, 0, 0}, "position 0 of the tree is its own ancestor"},
        {{UMBRA_TREE_ROOT, 99, 0, 0}, "position 1 of the tree or its parent is no position"},
        {{UMBRA_TREE_ROOT, 0, UMBRA_TREE_ROOT, 0}, "position 2 of the tree has no parent"},
        {{UMBRA_TREE_ROOT, 2, 3, 2}, "position 1 of the tree cannot be reached"},
    };
    static uint32_t parents[4];
    struct umbra_gpc_call good = over(all + 1, 3), call = good;
    size_t at;
    for (at = 0; at < sizeof bad / sizeof *bad; at++) {
        memcpy(parents, bad[at].parents, sizeof parents);
        call = good;
        call.parents = parents;
        refused("s17", &call, UMBRA_EINVAL, bad[at].words);
        call.parents = NULL, call.parent_of = parent_of, call.user = parents;
        refused("s17, by a function", &call, UMBRA_EINVAL, bad[at].words);
        call.parents = parents;
        refused("s17, in two ways", &call, UMBRA_EINVAL, "both parents and a function");
    }
    parents[0] = UMBRA_TREE_ROOT, parents[1] = 0, parents[2] = parents[3] = 1;
    call.parents = NULL;
    taken(&call, 4);
    call = good;
    call.tree = 77;
    refused("s17", &call, UMBRA_EINVAL, "no tree is called 77");
    call.tree = UMBRA_TREE_KARY, call.width = 0;
    refused("s17", &call, UMBRA_EINVAL, "no tree is called 4 with width 0");
    call.width = 256;
    refused("s17", &call, UMBRA_EINVAL, "no tree is called 4 with width 256");
}

/* Lists of children, of which parents are made: what is wrong with them is said then, or by the call. */
static void edges(void)
{
    static const struct umbra_gpc_edge ring[] = {{0, 1}, {2, 3}, {3, 2}}, comb[] = {{1, 3}, {0, 1}, {1, 2}};
    static const struct {
        struct umbra_gpc_edge edges[4];
        size_t count;
        const char *words;
    } bad[] = {
        {{{0, 1}, {0, 2}, {1, 3}, {2, 3}}, 4, "position 3 of the tree has two parents"},
        {{{0, 1}, {0, 2}, {1, 0}, {0, 3}}, 4, "position 0 of the tree is its own ancestor"},
        {{{0, 1}, {0, 2}, {99, 3}, {0, 0}}, 3, "position 3 of the tree or its parent is no position"},
        {{{0, 1}, {0, 2}, {0, 99}, {0, 0}}, 3, "position 99 of the tree or its parent is no position"},
        {{{0, 1}, {0, 3}, {0, 0}, {0, 0}}, 2, "position 2 of the tree cannot be reached"},
    };
    struct umbra_gpc_call call = over(all + 1, 3);
    struct umbra_gpc_figures before = figures_of(maker), after;
    uint32_t parents[4] = {7, 7, 7, 7};
    char detail[512];
    size_t at;
    doing = "s17, by edges";
    for (at = 0; at < sizeof bad / sizeof *bad; at++) {
        CHECK(umbra_gpc_parents(bad[at].edges, bad[at].count, parents, 4) == -UMBRA_EINVAL);
        must(umbra_error_detail(detail, sizeof detail, NULL));
        CHECK(strstr(detail, bad[at].words) != NULL);
        CHECK(parents[0] == 7 && parents[1] == 7 && parents[2] == 7 && parents[3] == 7);
    }
    after = figures_of(maker);
    CHECK(memcmp(&before, &after, sizeof after) == 0);
    must(umbra_gpc_parents(ring, 3, parents, 4));
    call.parents = parents;
    refused("s17, by edges", &call, UMBRA_EINVAL, "position 2 of the tree is its own ancestor");
    must(umbra_gpc_parents(comb, 3, parents, 4));
    CHECK(parents[0] == UMBRA_TREE_ROOT && parents[1] == 0 && parents[2] == 1 && parents[3] == 1);
    taken(&call, 4);
}

static void limits(void)
{
    /* Sixteen classes are fifteen levels below the maker. */
    struct umbra_gpc_call call = over(all, 17);
    call.tree = UMBRA_TREE_CHAIN;
    refused("s18", &call, UMBRA_ETOOLONG, "ends 16 levels below the maker of the outermost call, at most 15");
    call.count = 16;
    taken(&call, 16);
    call = over(all, MEMBERS + 1);
    refused("s18", &call, UMBRA_ETOOLONG, "19 members, at most 18");
    call.count = MEMBERS, call.tree = UMBRA_TREE_FLAT;
    taken(&call, MEMBERS);
}

/* Calls within calls go on below one another, two levels each: one at the sixteenth is refused, and nobody hears of it. */
static void nested(void)
{
    static const uint32_t first = 1;
    struct umbra_gpc_call call = over(&first, 1);
    uint32_t left;
    uint64_t sent;
    unsigned ran_before;
    umbra_call begun;
    doing = "s18, calls within calls";
    call.function = "nest", call.callback = NULL, call.reply_data = 0;
    call.header = &left, call.header_length = sizeof left;
    call.mode = UMBRA_GPC_COORDINATE;
    for (left = 7; left <= 8; left++) {
        ran_before = ran;
        sent = figures_of(maker).requests + figures_of(house).requests;
        must(umbra_gpc_start(maker, &call, &begun));
        ends(begun);
        must(umbra_gpc_wait(maker, begun, 0, NULL));
        CHECK(ran == ran_before + 8);
        CHECK(figures_of(maker).requests + figures_of(house).requests == sent + 8);
        CHECK(too_deep == left - 7);
    }
    CHECK(strstr(how_deep, "ends 17 levels below the maker of the outermost call, at most 15") != NULL);
    call = over(all, 4);
    taken(&call, 4);
}

/* More calls than may be open: the next one is taken when one has ended. */
static void too_many(void)
{
    struct umbra_gpc_call call = over(all, 2);
    struct umbra_gpc_figures before, after;
    umbra_call begun[OPEN], more = 0;
    unsigned at, ran_before;
    doing = "s19";
    for (at = 0; at < OPEN; at++)
        must(umbra_gpc_start(maker, &call, &begun[at]));
    ran_before = ran;
    before = figures_of(maker);
    CHECK(before.open == OPEN);
    for (at = 0; at < 3; at++)
        CHECK(umbra_gpc_start(maker, &call, &more) == -UMBRA_EFULL && more == 0);
    after = figures_of(maker);
    CHECK(memcmp(&before, &after, sizeof after) == 0 && ran == ran_before);
    ends_well(begun[0], 2);
    must(umbra_gpc_start(maker, &call, &more));
    for (at = 1; at < OPEN; at++)
        ends_well(begun[at], 2);
    ends_well(more, 2);
    CHECK(figures_of(maker).open == 0 && figures_of(house).open == 0);
}

static void the_dead(void)
{
    static const uint32_t with_it[2] = {1, MORTAL};
    struct umbra_gpc_call call = over(with_it, 2);
    umbra_member left = mortal;
    umbra_call begun = 0;
    doing = "s16";
    taken(&call, 3);
    must(umbra_gpc_leave(mortal));
    mortal = 0;
    CHECK(umbra_gpc_start(left, &call, &begun) == -UMBRA_ESTALE && begun == 0);
    /* It hears who has left. */
    must(umbra_gpc_serve(maker, 1000));
    refused("s16", &call, UMBRA_EPEER, "member 17 is dead");
    mortal = sit(MORTAL);
    must(umbra_gpc_serve(maker, 1000));
    taken(&call, 3);
}

static void figures(void)
{
    struct umbra_gpc_figures told;
    memset(&told, 0, sizeof told);
    doing = "figures";
    CHECK(umbra_gpc_figures(maker, &told) == -UMBRA_ESTRUCT && umbra_gpc_figures(maker, NULL) == -UMBRA_EINVAL);
    told.size = sizeof told;
    CHECK(umbra_gpc_figures(station, &told) == -UMBRA_EKIND && told.requests == 0);
    must(umbra_gpc_figures(maker, &told));
    CHECK(told.requests > 0 && told.request_bytes > told.requests && told.runs > 0 && told.responses == 0);
    told = figures_of(house);
    CHECK(told.requests == 0 && told.responses > 0 && told.at_home > 0 && told.malformed == 0);
}

int main(void)
{
    struct umbra_station_options options;
    uint32_t node;
    doing = "set up";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = MEMBERS;
    must(umbra_station_create(&options, &station));
    for (node = 0; node <= MEMBERS; node++)
        all[node] = node;
    maker = sit(0);
    house = sit(1);
    for (node = 2; node < MORTAL; node++)
        must(umbra_gpc_house(house, node));
    mortal = sit(MORTAL);
    members();
    lengths();
    functions();
    handles();
    trees();
    edges();
    limits();
    too_many();
    the_dead();
    figures();
    nested();
    doing = "the end";
    CHECK(umbra_gpc_leave(mortal) == 0 && umbra_gpc_leave(house) == 0 && umbra_gpc_leave(maker) == 0);
    must(umbra_station_detach(station));
    printf("all is right\n");
    return 0;
}
