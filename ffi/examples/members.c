/* What functions of chained calls in C are told of their call: which members are below them, and which call it is.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#include "check.h"

#define MEMBERS 7
#define PATIENCE_MS 60000

/* What each member was told when its function ran, and the name of the call. */
static struct {
    uint32_t below[MEMBERS], parent;
    size_t count;
    struct umbra_gpc_name name;
    unsigned runs;
} told[MEMBERS];

static umbra_member seats[MEMBERS];
static int wants_list, rewrites;

/* The list of a function that runs: the buffer, lengths that do not fit, and pointers to nowhere. */
static int list(struct umbra_gpc_work *work, uint32_t *members, size_t *count)
{
    uint32_t few[MEMBERS] = {99};
    if (umbra_gpc_work_members(work, few, work->subtree - 1, count) != -UMBRA_ESIZE || *count != work->subtree || few[0] != 99)
        return 1;
    *count = 99;
    if (umbra_gpc_work_members(work, NULL, MEMBERS, count) != -UMBRA_EINVAL || *count != 99)
        return 2;
    if (umbra_gpc_work_members(work, (uint32_t *)(void *)((char *)few + 1), MEMBERS, count) != -UMBRA_EINVAL || *count != 99)
        return 3;
    if (umbra_gpc_work_members(work, few, MEMBERS, NULL) != -UMBRA_EINVAL || few[0] != 99)
        return 4;
    if (umbra_gpc_work_call(work, NULL) != -UMBRA_EINVAL)
        return 5;
    return umbra_gpc_work_members(work, members, MEMBERS, count) == 0 ? 0 : 6;
}

/* Whether a function finds in its header who is on the way to its member, each put there by himself, and goes on so; a callback
 * cannot. */
static int is_on_the_way(struct umbra_gpc_work *work)
{
    static const char *const ways[MEMBERS] = {"24", "25", "", "25", "2", "2", "24"};
    static char longer[1025];
    const char *way = rewrites ? ways[work->node] : "";
    size_t length = strlen(way);
    int code;
    if (work->header_length != length || memcmp(work->header, way, length) != 0)
        return 0;
    memcpy(longer, way, length);
    longer[length] = (char)('0' + work->node);
    code = umbra_gpc_work_rewrite(work, longer, length + 1);
    if (!rewrites || work->phase == UMBRA_GPC_WAIT)
        return code == -UMBRA_EINVAL;
    return code == 0 && umbra_gpc_work_rewrite(work, longer, sizeof longer) == -UMBRA_ETOOLONG &&
           umbra_gpc_work_rewrite(work, NULL, 1) == -UMBRA_EINVAL;
}

/* Whether all members of the call are told, if they are wanted, with those of the list in one piece. */
static int is_listed(struct umbra_gpc_work *work, const uint32_t *below, size_t count)
{
    static const uint32_t whole[MEMBERS] = {2, 5, 3, 1, 4, 0, 6};
    uint32_t all[MEMBERS] = {99};
    size_t listed = 99, at;
    int code = umbra_gpc_work_list(work, all, MEMBERS, &listed);
    if (!wants_list)
        return code == -UMBRA_EINVAL && all[0] == 99 && listed == 99;
    if (code != 0 || listed != MEMBERS || memcmp(all, whole, sizeof whole) != 0)
        return 0;
    for (at = 0; all[at] != work->node; at++)
        if (at == MEMBERS - 1)
            return 0;
    if (at + count > MEMBERS || memcmp(all + at, below, count * sizeof *all) != 0)
        return 0;
    return umbra_gpc_work_list(work, all, MEMBERS - 1, &listed) == -UMBRA_ESIZE && listed == MEMBERS;
}

static int look(void *user, struct umbra_gpc_work *work)
{
    uint32_t again[MEMBERS], at = work->node;
    struct umbra_gpc_name name;
    size_t count;
    int wrong;
    (void)user;
    if (work->phase == UMBRA_GPC_INIT) {
        told[at].parent = work->parent;
        told[at].runs++;
        wrong = list(work, told[at].below, &told[at].count);
        if (wrong != 0 || umbra_gpc_work_call(work, &told[at].name) != 0)
            return wrong != 0 ? wrong : 10;
        if (!is_listed(work, told[at].below, told[at].count))
            return 12;
        if (!is_on_the_way(work))
            return 13;
        return told[at].count == work->subtree ? UMBRA_GPC_PENDING : 11;
    }
    /* Whether it is pending or a callback, it is the same call over the same members. */
    wrong = list(work, again, &count);
    if (wrong != 0 || umbra_gpc_work_call(work, &name) != 0)
        return 20 + wrong;
    if (count != told[at].count || memcmp(again, told[at].below, count * sizeof *again) != 0)
        return 30;
    if (!is_listed(work, again, count))
        return 32;
    if (!is_on_the_way(work))
        return 33;
    return name.maker == 2 && name.life == told[at].name.life && name.number == told[at].name.number ? 0 : 31;
}

static void make(const struct umbra_gpc_call *call)
{
    struct umbra_gpc_answer answer;
    umbra_call begun;
    int ended = 0;
    unsigned at;
    must(umbra_gpc_start(seats[2], call, &begun));
    while (!ended) {
        must(umbra_gpc_test(seats[2], begun, &ended));
        for (at = 0; at < MEMBERS - 1; at++)
            must(umbra_gpc_serve(seats[at], 0));
    }
    memset(&answer, 0, sizeof answer);
    answer.size = sizeof answer;
    must(umbra_gpc_wait(seats[2], begun, 0, &answer));
    CHECK(answer.ok == MEMBERS);
}

static void is_told(uint32_t node, uint32_t parent, const uint32_t *below, size_t count)
{
    CHECK(told[node].parent == parent && told[node].count == count);
    CHECK(memcmp(told[node].below, below, count * sizeof *below) == 0);
}

int main(void)
{
    static const uint32_t given[MEMBERS] = {5, 4, 3, 2, 1, 0, 6};
    /* The maker, 5 and 4 below it, 3 and 1 below 5, and 0 and 6 below 4, in the order in which a tree is written down. */
    static const uint32_t whole[MEMBERS] = {2, 5, 3, 1, 4, 0, 6};
    struct umbra_station_options options;
    struct umbra_gpc_call call;
    struct umbra_gpc_name first;
    umbra_station station;
    uint32_t node;
    doing = "set up";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = MEMBERS;
    must(umbra_station_create(&options, &station));
    for (node = 0; node < MEMBERS - 1; node++) {
        must(umbra_gpc_join(station, node, NULL, &seats[node]));
        must(umbra_gpc_register(seats[node], "look", look, NULL));
    }
    /* The last one lives with its parent. */
    must(umbra_gpc_house(seats[4], MEMBERS - 1));
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = call.callback = "look";
    call.members = given;
    call.count = MEMBERS;
    call.timeout_ms = PATIENCE_MS;
    doing = "a binary tree";
    make(&call);
    is_told(2, UMBRA_GPC_NOBODY, whole, MEMBERS);
    is_told(5, 2, whole + 1, 3);
    is_told(3, 5, whole + 2, 1);
    is_told(1, 5, whole + 3, 1);
    is_told(4, 2, whole + 4, 3);
    is_told(0, 4, whole + 5, 1);
    is_told(6, 4, whole + 6, 1);
    first = told[0].name;
    doing = "another call";
    make(&call);
    for (node = 0; node < MEMBERS; node++) {
        CHECK(told[node].runs == 2 && told[node].name.maker == 2 && told[node].name.life == first.life);
        CHECK(told[node].name.number == first.number + 1);
    }
    doing = "the whole list";
    wants_list = 1;
    call.mode = UMBRA_GPC_FULL_LIST;
    make(&call);
    is_told(6, 4, whole + 6, 1);
    doing = "headers for those below";
    rewrites = 1;
    call.mode |= UMBRA_GPC_REWRITE;
    make(&call);
    call.mode |= UMBRA_GPC_CUT_THROUGH;
    CHECK(umbra_gpc_exec(seats[2], &call, NULL) == -UMBRA_EINVAL);
    doing = "functions that do not run";
    CHECK(umbra_gpc_work_rewrite(NULL, NULL, 0) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_work_list(NULL, &node, 1, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_work_members(NULL, &node, 1, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_work_call(NULL, &first) == -UMBRA_EINVAL);
    doing = "the end";
    for (node = 0; node < MEMBERS - 1; node++)
        must(umbra_gpc_leave(seats[node]));
    must(umbra_station_detach(station));
    printf("all is right\n");
    return 0;
}
