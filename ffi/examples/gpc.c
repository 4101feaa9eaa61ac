/* Chained calls in C: a parent and its children meet, and the parent has functions run on all of them over several trees.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define MEMBERS 6

/* What a member knows of itself. */
struct self {
    umbra_member member;
    int asked_itself, probed, over;
};

/* Function and callback in one: the sum of the numbers of all members. The header names a member and what it returns. */
static int sum(void *user, struct umbra_gpc_work *work)
{
    struct self *self = user;
    const int *wanted = work->header;
    uint64_t ours, theirs;
    if (work->phase == UMBRA_GPC_WAIT) {
        if (work->child_data_length != sizeof theirs || work->child == UMBRA_GPC_NOBODY)
            return 99;
        memcpy(&ours, work->reply_data, sizeof ours);
        memcpy(&theirs, work->child_data, sizeof theirs);
        ours += theirs;
        memcpy(work->reply_data, &ours, sizeof ours);
        return 0;
    }
    self->asked_itself = umbra_gpc_serve(self->member, 0);
    if (work->header_length == 2 * sizeof(int) && (uint32_t)wanted[0] == work->node) {
        if (wanted[1] != UMBRA_GPC_PENDING || !self->probed++)
            return wanted[1];
        if (work->phase != UMBRA_GPC_PROBE)
            return 98;
    }
    ours = work->node;
    memcpy(work->reply_data, &ours, sizeof ours);
    work->reply_data_length = sizeof ours;
    return 0;
}

static int over(void *user, struct umbra_gpc_work *work)
{
    (void)work;
    ((struct self *)user)->over = 1;
    return 0;
}

/* Says that its reply is longer than there is room for. */
static int boast(void *user, struct umbra_gpc_work *work)
{
    (void)user;
    work->reply_data_length = work->reply_data_capacity + 1;
    return 0;
}

static struct umbra_gpc_call sum_over(const uint32_t *members, size_t count);
static struct umbra_gpc_answer answer_in(uint64_t *data, struct umbra_gpc_failure *failures, size_t count);

static const uint32_t all[MEMBERS] = {0, 1, 2, 3, 4, 5};

/* Calls everybody itself and answers with the sum; its callback is that of the sum. */
static int relay(void *user, struct umbra_gpc_work *work)
{
    struct umbra_gpc_call call = sum_over(all, MEMBERS);
    struct umbra_gpc_answer answer;
    uint64_t total = 0;
    uint32_t number = UINT32_MAX;
    int code;
    (void)user;
    answer = answer_in(&total, NULL, 0);
    code = umbra_gpc_work_answer(work, 0, &answer);
    if (work->phase == UMBRA_GPC_INIT) {
        if (code != -UMBRA_ESTALE || umbra_gpc_work_start(work, &call, NULL) != -UMBRA_EINVAL)
            return 1;
        if (umbra_gpc_work_start(work, &call, &number) != 0 || number != 0)
            return 2;
        call.function = "nobody's";
        if (umbra_gpc_work_start(work, &call, &number) != 0 || number != 1)
            return 3;
        return umbra_gpc_work_answer(work, 0, &answer) == -UMBRA_ETIMEOUT ? UMBRA_GPC_PENDING : 4;
    }
    if (umbra_gpc_work_answer(work, 1, NULL) != -UMBRA_ENOFUNCTION)
        return 5;
    if (code == -UMBRA_ETIMEOUT)
        return UMBRA_GPC_PENDING;
    if (code != 0 || answer.ok != MEMBERS)
        return 6;
    memcpy(work->reply_data, &total, sizeof total);
    work->reply_data_length = sizeof total;
    return 0;
}

static void take_part(umbra_station station, uint32_t node, struct self *self)
{
    must(umbra_gpc_join(station, node, NULL, &self->member));
    must(umbra_gpc_register(self->member, "sum", sum, self));
    must(umbra_gpc_register(self->member, "over", over, self));
    must(umbra_gpc_register(self->member, "relay", relay, self));
    must(umbra_gpc_register(self->member, "boast", boast, self));
}

static int child(int descriptor, uint32_t node, pid_t parent)
{
    struct self self = {0, 0, 0, 0};
    umbra_station station;
    int is_short = -1;
    doing = "a child";
    /* It waits most of the time, and its parent for it. */
    must(umbra_thread_slices(1, &is_short));
    CHECK(is_short == 0 || is_short == 1);
    must(umbra_station_attach(descriptor, &station));
    close(descriptor);
    take_part(station, node, &self);
    must(umbra_station_detach(station));
    while (!self.over) {
        /* A parent that failed has no more calls. */
        if (getppid() != parent)
            return 1;
        must(umbra_gpc_serve(self.member, 20));
    }
    /* What it answered is on its way. */
    must(umbra_gpc_serve(self.member, 0));
    must(umbra_gpc_leave(self.member));
    return 0;
}

static struct umbra_gpc_call sum_over(const uint32_t *members, size_t count)
{
    struct umbra_gpc_call call;
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = "sum";
    call.callback = "sum";
    call.members = members;
    call.count = count;
    call.reply_data = sizeof(uint64_t);
    call.timeout_ms = PATIENCE_MS;
    return call;
}

static struct umbra_gpc_answer answer_in(uint64_t *data, struct umbra_gpc_failure *failures, size_t count)
{
    struct umbra_gpc_answer answer;
    memset(&answer, 0, sizeof answer);
    answer.size = sizeof answer;
    answer.data = data;
    answer.data_capacity = sizeof *data;
    answer.failures = failures;
    answer.failure_capacity = count;
    return answer;
}

/* A comb: the odd positions hang below each other, and every even one below the odd one before it. */
static uint32_t comb(void *user, uint32_t count, uint32_t position)
{
    uint32_t *asked = user;
    *asked += 1;
    if (position == 0)
        return UMBRA_TREE_ROOT;
    if (position >= count)
        return count;
    return position % 2 == 0 ? position - 1 : position < 2 ? 0 : position - 2;
}

static void trees(umbra_member member)
{
    struct umbra_gpc_call call = sum_over(all, MEMBERS);
    struct umbra_gpc_answer answer;
    uint32_t parents[MEMBERS], asked = 0, i;
    uint64_t total;
    doing = "trees";
    for (i = 0; i < 9; i++) {
        call.tree = i <= UMBRA_TREE_AUTO ? i : 0;
        call.width = 3;
        if (i == 7) {
            call.parent_of = comb;
            call.user = &asked;
        }
        if (i == 8) {
            uint32_t at;
            call.parent_of = NULL;
            for (at = 0; at < MEMBERS; at++)
                parents[at] = comb(&asked, MEMBERS, at);
            call.parents = parents;
        }
        total = 0;
        answer = answer_in(&total, NULL, 0);
        must(umbra_gpc_exec(member, &call, &answer));
        CHECK(total == 15 && answer.data_length == sizeof total && answer.header_length == 0);
        CHECK(answer.ok == MEMBERS && answer.failed == 0 && answer.unreached == 0 && answer.unknown == 0);
    }
    CHECK(asked == 2 * MEMBERS);
}

static void fastest(umbra_member member)
{
    struct umbra_gpc_call call = sum_over(all, MEMBERS);
    struct umbra_gpc_answer answer;
    uint32_t tree = 99, width = 99;
    uint64_t total = 0;
    doing = "the fastest tree";
    call.function = "nothing";
    CHECK(umbra_gpc_calibrate(member, &call, 2, &tree, &width) == -UMBRA_ENOFUNCTION);
    call.function = "boast";
    CHECK(umbra_gpc_calibrate(member, &call, 2, &tree, &width) == -UMBRA_ECALL);
    call.function = "sum";
    CHECK(umbra_gpc_calibrate(member, &call, 2, NULL, &width) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_calibrate(member, &call, 2, &tree, NULL) == -UMBRA_EINVAL);
    CHECK(tree == 99 && width == 99);
    must(umbra_gpc_calibrate(member, &call, 0, &tree, &width));
    call.tree = tree, call.width = width;
    answer = answer_in(&total, NULL, 0);
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(total == 15 && answer.ok == MEMBERS);
}

/* Every member calls every member: six sums of 15. */
static void calls_within(umbra_member member)
{
    struct umbra_gpc_call call = sum_over(all, MEMBERS);
    struct umbra_gpc_answer answer;
    uint64_t total = 0;
    doing = "calls within calls";
    call.function = "relay";
    answer = answer_in(&total, NULL, 0);
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(total == 90 && answer.ok == MEMBERS);
    CHECK(umbra_gpc_work_start(NULL, &call, NULL) == -UMBRA_EINVAL);
}

static void failures(umbra_member member)
{
    struct umbra_gpc_failure who[2];
    struct umbra_gpc_call call = sum_over(all, MEMBERS);
    struct umbra_gpc_answer answer;
    int wanted[2] = {4, 42};
    uint32_t missed[5] = {99, 99, 99, 99, 99};
    char detail[200];
    uint64_t total = 7;
    umbra_call begun;
    int ended = 0;
    doing = "failures";
    call.header = wanted;
    call.header_length = sizeof wanted;
    call.mode = UMBRA_GPC_COLLECT;
    answer = answer_in(&total, who, 2);
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ECALL);
    CHECK(answer.ok == 5 && answer.failed == 1 && answer.failure_count == 1 && answer.data_length == 0 && total == 7);
    CHECK(who[0].member == 4 && who[0].stage == UMBRA_GPC_STAGE_FUNC && who[0].code == UMBRA_GPC_CODE_FAULT && who[0].detail == 42);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strcmp(detail, "member 4, func: the function failed with 42; 5 ok, 1 failed, 0 not reached, 0 unknown") == 0);

    doing = "a reply that is too long";
    call.function = "boast";
    call.header_length = 0;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ECALL);
    CHECK(answer.failure_count == 1 && who[0].member == 0 && who[0].stage == 6 && who[0].detail == 9);
    CHECK(answer.unreached == MEMBERS - 1 && answer.unreached_count == MEMBERS - 1);

    doing = "members that were not reached";
    answer.unreached_members = missed;
    answer.unreached_capacity = 4;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ECALL);
    /* In the order of the tree, as many as there is room for. */
    CHECK(answer.unreached_count == 5 && missed[0] == 1 && missed[1] == 3 && missed[2] == 4 && missed[3] == 2 && missed[4] == 99);
    missed[0] = 99;
    answer.size = offsetof(struct umbra_gpc_answer, unreached_members);
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ECALL && answer.unreached == MEMBERS - 1 && missed[0] == 99);
    call = sum_over(all, MEMBERS);
    wanted[0] = 1;
    call.header = wanted;
    call.header_length = sizeof wanted;
    answer = answer_in(&total, who, 2);
    answer.unreached_members = missed;
    answer.unreached_capacity = 5;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ECALL && who[0].member == 1);
    CHECK(answer.unreached >= 2 && answer.unreached_count == 2 && missed[0] == 3 && missed[1] == 4);

    doing = "a function that is pending";
    call = sum_over(all, MEMBERS);
    wanted[1] = UMBRA_GPC_PENDING;
    call.header = wanted;
    call.header_length = sizeof wanted;
    must(umbra_gpc_start(member, &call, &begun));
    while (!ended)
        must(umbra_gpc_test(member, begun, &ended));
    answer = answer_in(&total, who, 2);
    answer.data_capacity = 4;
    CHECK(umbra_gpc_wait(member, begun, 0, &answer) == -UMBRA_ESIZE && answer.data_length == sizeof total && total == 7);
    must(umbra_gpc_test(member, begun, &ended));
    CHECK(ended == 1);
    answer.data_capacity = sizeof total;
    must(umbra_gpc_wait(member, begun, 0, &answer));
    CHECK(total == 15 && answer.failure_count == 0);
    CHECK(umbra_gpc_wait(member, begun, 0, &answer) == -UMBRA_ESTALE);
    CHECK(umbra_gpc_test(member, begun, &ended) == -UMBRA_ESTALE && umbra_gpc_cancel(member, begun) == -UMBRA_ESTALE);

    doing = "a call that is given up";
    must(umbra_gpc_start(member, &call, &begun));
    must(umbra_gpc_cancel(member, begun));
    answer = answer_in(&total, who, 2);
    CHECK(umbra_gpc_wait(member, begun, PATIENCE_MS, &answer) == -UMBRA_ECALL && who[0].stage == 7);
}

static void refusals(umbra_station station, umbra_member member)
{
    static const uint32_t doubles[3] = {1, 2, 1}, strangers[1] = {MEMBERS};
    static const uint32_t circle[MEMBERS] = {UMBRA_TREE_ROOT, 2, 1, 0, 0, 0};
    static char long_header[1025];
    struct umbra_gpc_call good = sum_over(all, MEMBERS), call = good;
    struct umbra_gpc_answer answer;
    umbra_member other = 0;
    umbra_call begun = 0;
    uint32_t *parents;
    uint64_t total = 0;
    doing = "refusals";
#define REFUSED(code) CHECK(umbra_gpc_start(member, &call, &begun) == -(code) && begun == 0), call = good
    call.members = doubles, call.count = 3;
    REFUSED(UMBRA_EINVAL);
    call.members = strangers, call.count = 1;
    REFUSED(UMBRA_EINVAL);
    call.members = NULL;
    REFUSED(UMBRA_EINVAL);
    call.function = "nobody's";
    REFUSED(UMBRA_ENOFUNCTION);
    call.function = NULL;
    REFUSED(UMBRA_EINVAL);
    call.callback = NULL;
    REFUSED(UMBRA_EINVAL);
    call.header = long_header, call.header_length = sizeof long_header;
    REFUSED(UMBRA_ETOOLONG);
    call.header = NULL, call.header_length = 1;
    REFUSED(UMBRA_EINVAL);
    call.data = long_header, call.data_length = (size_t)-1;
    REFUSED(UMBRA_EINVAL);
    call.reply_data = 1 << 20;
    REFUSED(UMBRA_ETOOLONG);
    call.reply_data = (size_t)-1;
    REFUSED(UMBRA_ETOOLONG);
    call.parents = circle;
    REFUSED(UMBRA_EINVAL);
    call.tree = UMBRA_TREE_AUTO + 1;
    REFUSED(UMBRA_EINVAL);
    call.tree = UMBRA_TREE_KARY, call.width = 0;
    REFUSED(UMBRA_EINVAL);
    call.mode = 1 << 20;
    REFUSED(UMBRA_EINVAL);
    call.mode = 16;
    REFUSED(UMBRA_EINVAL);
    call.size = 8;
    REFUSED(UMBRA_ESTRUCT);
    call.members = doubles, call.count = 3, call.mode = UMBRA_GPC_DEDUP;
    answer = answer_in(&total, NULL, 0);
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(answer.ok == 3 && total == 3);
    /* Whoever counts once has one position, so the tree is stated for three. */
    parents = malloc(3 * sizeof *parents);
    CHECK(parents != NULL);
    parents[0] = UMBRA_TREE_ROOT, parents[1] = 0, parents[2] = 1;
    call.parents = parents;
    answer = answer_in(&total, NULL, 0);
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(answer.ok == 3 && total == 3);
    free(parents);
    call = good;
    doing = "an answer that does not fit";
    answer = answer_in(&total, NULL, 0);
    answer.data_capacity = 4;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ESIZE && answer.data_length == sizeof total && total == 3);
    doing = "refusals";
    CHECK(umbra_gpc_start(member, &good, NULL) == -UMBRA_EINVAL);
    answer = answer_in(&total, NULL, 0);
    answer.size = 0;
    CHECK(umbra_gpc_exec(member, &good, &answer) == -UMBRA_ESTRUCT);
    CHECK(umbra_gpc_start(station, &good, &begun) == -UMBRA_EKIND);
    CHECK(umbra_gpc_join(station, 1, NULL, &other) == -UMBRA_EINUSE);
    CHECK(umbra_gpc_join(station, MEMBERS, NULL, &other) == -UMBRA_EINVAL && other == 0);
    CHECK(umbra_gpc_register(member, "sum", sum, NULL) == -UMBRA_EKEYTAKEN);
    CHECK(umbra_gpc_register(member, "none", NULL, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_release(member, "none") == -UMBRA_ENOFUNCTION);
    CHECK(umbra_station_attach(-1, &station) == -UMBRA_EINVAL);
    CHECK(umbra_station_attach(0, &station) < 0);
    /* Nothing of all that has left a trace. */
    answer = answer_in(&total, NULL, 0);
    must(umbra_gpc_exec(member, &good, &answer));
    CHECK(total == 15);
}

int main(void)
{
    struct umbra_station_options options;
    struct umbra_gpc_call call;
    struct self self = {0, 0, 0, 0};
    umbra_station station;
    pid_t children[MEMBERS], parent = getpid();
    int descriptor, status;
    uint32_t node;

    doing = "set up";
    memset(&options, 0, sizeof options);
    options.members = MEMBERS;
    CHECK(umbra_station_create(&options, &station) == -UMBRA_ESTRUCT);
    options.size = sizeof options;
    options.members = 5000;
    CHECK(umbra_station_create(&options, &station) == -UMBRA_EINVAL);
    options.members = MEMBERS;
    must(umbra_station_create(&options, &station));
    must(umbra_station_share(station, &descriptor));
    for (node = 1; node + 1 < MEMBERS; node++) {
        children[node] = fork();
        CHECK(children[node] >= 0);
        if (children[node] == 0)
            return child(descriptor, node, parent);
    }
    close(descriptor);
    take_part(station, 0, &self);
    /* The last member lives with the first. */
    must(umbra_gpc_house(self.member, MEMBERS - 1));

    trees(self.member);
    fastest(self.member);
    CHECK(self.asked_itself == -UMBRA_EDEADLOCK);
    calls_within(self.member);
    failures(self.member);
    refusals(station, self.member);

    doing = "the end";
    must(umbra_gpc_release(self.member, "sum"));
    call = sum_over(all, MEMBERS);
    CHECK(umbra_gpc_exec(self.member, &call, NULL) == -UMBRA_ENOFUNCTION);
    call.function = "over";
    call.callback = NULL;
    call.reply_data = 0;
    /* Whoever has run it leaves, so nobody waits for children. */
    call.tree = UMBRA_TREE_FLAT;
    must(umbra_gpc_exec(self.member, &call, NULL));
    for (node = 1; node + 1 < MEMBERS; node++)
        CHECK(waitpid(children[node], &status, 0) == children[node] && status == 0);
    must(umbra_gpc_leave(self.member));
    CHECK(umbra_gpc_leave(self.member) == -UMBRA_ESTALE);
    must(umbra_station_detach(station));
    printf("all is right\n");
    return 0;
}
