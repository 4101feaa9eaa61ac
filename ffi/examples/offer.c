/* Offered data, streams and long replies of chained calls in C: a parent and its children meet, all of them read what the parent
 * has laid down once, and answer with as much.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define MEMBERS 4
#define WORDS 100000
#define OFFERED (WORDS * sizeof(uint64_t))

static const uint32_t all[MEMBERS] = {0, 1, 2, 3};
static uint64_t words[WORDS];

/* The sum of all words that the call is over. */
static int sum(void *user, struct umbra_gpc_work *work)
{
    uint64_t ours = 0, theirs, part[512], at, i;
    (void)user;
    if (work->phase == UMBRA_GPC_WAIT) {
        if (work->child_data_length != sizeof theirs)
            return 99;
        memcpy(&ours, work->reply_data, sizeof ours);
        memcpy(&theirs, work->child_data, sizeof theirs);
        ours += theirs;
    } else {
        if (work->data_length != 0 || (work->offered_length != 0 && work->data != NULL))
            return 98;
        for (at = 0; at < work->offered_length; at += sizeof part) {
            uint64_t length = work->offered_length - at < sizeof part ? work->offered_length - at : sizeof part;
            int code = umbra_gpc_work_read(work, at, part, (size_t)length);
            if (code != 0)
                return code == -UMBRA_EREVOKED ? 3 : code == -UMBRA_EINVAL ? 4 : 97;
            for (i = 0; i < length / sizeof part[0]; i++)
                ours += part[i];
        }
        if (umbra_gpc_work_read(work, at, part, sizeof part) != -UMBRA_EBOUNDS)
            return work->offered_length == 0 ? 4 : 96;
        if (umbra_gpc_work_read(work, 0, NULL, 8) != -UMBRA_EINVAL || umbra_gpc_work_read(work, 0, NULL, 0) != 0)
            return 95;
    }
    memcpy(work->reply_data, &ours, sizeof ours);
    work->reply_data_length = sizeof ours;
    return 0;
}

/* The same for a stream: the header says which part it is, and who is to fail at which part. */
static int streamed(void *user, struct umbra_gpc_work *work)
{
    struct umbra_gpc_segment segment;
    uint64_t fails[2];
    if (work->header_length != sizeof segment + sizeof fails)
        return 94;
    memcpy(&segment, work->header, sizeof segment);
    memcpy(fails, (const char *)work->header + sizeof segment, sizeof fails);
    if (segment.length != work->offered_length || segment.offset + segment.length > segment.total)
        return 93;
    if (work->phase != UMBRA_GPC_WAIT && fails[0] == work->node && fails[1] == segment.offset)
        return 42;
    return sum(user, work);
}

/* Every word of the reply is that of the same place, times the number of members that it is of. */
static int all_words(void *user, struct umbra_gpc_work *work)
{
    uint64_t *ours = work->reply_data;
    const uint64_t *theirs = work->child_data;
    size_t i;
    (void)user;
    if (work->phase != UMBRA_GPC_WAIT) {
        if (work->reply_data_capacity != sizeof words)
            return 92;
        memcpy(work->reply_data, words, sizeof words);
        work->reply_data_length = sizeof words;
        return 0;
    }
    if (work->child_data_length != sizeof words || work->reply_data_length != sizeof words)
        return 91;
    for (i = 0; i < WORDS; i++)
        ours[i] += theirs[i];
    return 0;
}

static int over(void *user, struct umbra_gpc_work *work)
{
    (void)work;
    *(int *)user = 1;
    return 0;
}

static void take_part(umbra_station station, uint32_t node, int *is_over, umbra_member *member)
{
    must(umbra_gpc_join(station, node, NULL, member));
    must(umbra_gpc_register(*member, "sum", sum, NULL));
    must(umbra_gpc_register(*member, "streamed", streamed, NULL));
    must(umbra_gpc_register(*member, "all words", all_words, NULL));
    must(umbra_gpc_register(*member, "over", over, is_over));
}

static int child(int descriptor, uint32_t node, pid_t parent)
{
    umbra_station station;
    umbra_member member;
    int is_over = 0;
    doing = "a child";
    must(umbra_station_attach(descriptor, &station));
    close(descriptor);
    take_part(station, node, &is_over, &member);
    must(umbra_station_detach(station));
    while (!is_over) {
        /* A parent that failed has no more calls. */
        if (getppid() != parent)
            return 1;
        must(umbra_gpc_serve(member, 20));
    }
    must(umbra_gpc_serve(member, 0));
    must(umbra_gpc_leave(member));
    return 0;
}

static struct umbra_gpc_call call_of(const char *function)
{
    struct umbra_gpc_call call;
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = function;
    call.callback = function;
    call.members = all;
    call.count = MEMBERS;
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

static uint64_t sum_of(size_t from, size_t count)
{
    uint64_t total = 0;
    size_t i;
    for (i = from; i < from + count; i++)
        total += words[i];
    return total;
}

static void offers(umbra_member member)
{
    struct umbra_gpc_call call = call_of("sum");
    struct umbra_gpc_failure who[1];
    struct umbra_gpc_answer answer;
    umbra_offer offer = 0, other = 0;
    uint64_t total = 0;
    doing = "offers";
    CHECK(umbra_gpc_offer(member, words, sizeof words, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_offer(member, NULL, 8, &offer) == -UMBRA_EINVAL);
    CHECK(umbra_gpc_offer(member, words, 0, &offer) == -UMBRA_EINVAL && offer == 0);
    must(umbra_gpc_offer(member, words, sizeof words, &offer));
    CHECK(umbra_gpc_offer(member, words, sizeof words, &other) == -UMBRA_EFULL && other == 0);
    call.offer = offer;
    answer = answer_in(&total, who, 1);
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(answer.ok == MEMBERS && total == MEMBERS * sum_of(0, WORDS));
    call.offer_offset = 8 * 1000;
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(total == MEMBERS * sum_of(1000, WORDS - 1000));
    call.offer_length = 8 * 77;
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(total == MEMBERS * sum_of(1000, 77));

    doing = "offers that are none";
    call.offer_length = OFFERED;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_EBOUNDS);
    call.offer_offset = OFFERED, call.offer_length = 0;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_EBOUNDS);
    call.offer_offset = 0;
    call.data = words, call.data_length = 8;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_EINVAL);
    call.data_length = 0, call.offer = offer + 1;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ESTALE);
    call.offer = 0, call.offer_length = 8;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ESTALE);
    CHECK(umbra_gpc_take_back(member, offer + 1) == -UMBRA_ESTALE);
    must(umbra_gpc_take_back(member, offer));
    CHECK(umbra_gpc_take_back(member, offer) == -UMBRA_ESTALE);
    call.offer = offer, call.offer_length = 0;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ESTALE);
    /* Nothing is offered to this one. */
    call.offer = 0;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ECALL);
    CHECK(answer.failure_count == 1 && who[0].stage == 2 && who[0].detail == 4);
}

/* What has been told of a stream. */
struct told {
    umbra_member member;
    uint64_t next, total;
    int busy;
};

static void each(void *user, const struct umbra_gpc_segment *segment, const void *header, size_t header_length,
                 const void *data, size_t data_length)
{
    struct told *told = user;
    uint64_t sum_here;
    (void)header;
    CHECK(segment->offset == told->next && segment->total == OFFERED && header_length == 0);
    CHECK(data_length == sizeof sum_here);
    memcpy(&sum_here, data, sizeof sum_here);
    told->next += segment->length;
    told->total += sum_here;
    told->busy = umbra_gpc_serve(told->member, 0);
}

static void streams(umbra_member member)
{
    struct umbra_gpc_call call = call_of("streamed");
    struct umbra_gpc_window window;
    struct umbra_gpc_failure who[1];
    struct umbra_gpc_answer answer;
    struct told told;
    uint64_t fails[2] = {UINT64_MAX, 0}, unused = 0;
    char detail[200];
    doing = "streams";
    memset(&told, 0, sizeof told);
    memset(&window, 0, sizeof window);
    told.member = member;
    window.size = sizeof window;
    window.segment_bytes = 8 * 3000;
    window.calls = 4;
    call.header = fails;
    call.header_length = sizeof fails;
    call.data = words;
    call.data_length = sizeof words;
    answer = answer_in(&unused, who, 1);
    must(umbra_gpc_stream(member, &call, &window, each, &told, &answer));
    CHECK(told.next == OFFERED && told.total == MEMBERS * sum_of(0, WORDS) && told.busy == -UMBRA_EDEADLOCK);
    must(umbra_gpc_stream(member, &call, &window, NULL, NULL, NULL));

    doing = "a stream that fails in the middle";
    told.next = 0, told.total = 0;
    fails[0] = 2, fails[1] = 5 * window.segment_bytes;
    CHECK(umbra_gpc_stream(member, &call, &window, each, &told, &answer) == -UMBRA_ECALL);
    CHECK(told.next == fails[1] && told.total == MEMBERS * sum_of(0, 5 * 3000));
    CHECK(answer.failure_count == 1 && who[0].member == 2 && who[0].stage == 2 && who[0].detail == 42);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strncmp(detail, "segment at 120000: ", 19) == 0);

    doing = "streams that are none";
    window.calls = 0;
    CHECK(umbra_gpc_stream(member, &call, &window, each, &told, &answer) == -UMBRA_EINVAL);
    window.calls = 1, window.segment_bytes = 2 * OFFERED;
    call.data_length = 0;
    must(umbra_gpc_stream(member, &call, &window, each, &told, &answer));
    call.offer = 1;
    CHECK(umbra_gpc_stream(member, &call, &window, each, &told, &answer) == -UMBRA_EINVAL);
    call.offer = 0, call.function = "nobody's", call.data_length = 8;
    CHECK(umbra_gpc_stream(member, &call, &window, each, &told, &answer) == -UMBRA_ENOFUNCTION);
    window.size = 0;
    CHECK(umbra_gpc_stream(member, &call, &window, each, &told, &answer) == -UMBRA_ESTRUCT);
    CHECK(umbra_gpc_stream(member, &call, NULL, each, &told, &answer) == -UMBRA_EINVAL);
}

static void long_replies(umbra_member member)
{
    static uint64_t reply[WORDS];
    struct umbra_gpc_call call = call_of("all words");
    struct umbra_gpc_answer answer = answer_in(reply, NULL, 0);
    size_t i;
    doing = "long replies";
    call.reply_data = sizeof words;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ESIZE && answer.data_length == sizeof words);
    answer.data_capacity = sizeof reply;
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(answer.ok == MEMBERS && answer.data_length == sizeof words);
    for (i = 0; i < WORDS; i++)
        CHECK(reply[i] == MEMBERS * words[i]);
    /* Nobody has as much memory. */
    call.reply_data = sizeof words + 128;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ETOOLONG);
    call.mode = UMBRA_GPC_RENDEZVOUS;
    CHECK(umbra_gpc_exec(member, &call, &answer) == -UMBRA_ETOOLONG);
    call.reply_data = sizeof words;
    must(umbra_gpc_exec(member, &call, &answer));
    CHECK(reply[WORDS - 1] == MEMBERS * words[WORDS - 1]);
}

int main(void)
{
    struct umbra_station_options options;
    struct umbra_gpc_call call;
    umbra_station station;
    umbra_member member;
    pid_t children[MEMBERS], parent = getpid();
    int descriptor, status, is_over = 0;
    uint32_t node;

    doing = "set up";
    for (node = 0; node < WORDS; node++)
        words[node] = UINT64_C(0x9e3779b97f4a7c15) * node;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = MEMBERS;
    options.offer_bytes = OFFERED;
    must(umbra_station_create(&options, &station));
    must(umbra_station_share(station, &descriptor));
    for (node = 1; node < MEMBERS; node++) {
        children[node] = fork();
        CHECK(children[node] >= 0);
        if (children[node] == 0)
            return child(descriptor, node, parent);
    }
    close(descriptor);
    take_part(station, 0, &is_over, &member);

    offers(member);
    streams(member);
    long_replies(member);

    doing = "the end";
    call = call_of("over");
    call.callback = NULL;
    call.reply_data = 0;
    /* Whoever has run it leaves, so nobody waits for children. */
    call.tree = UMBRA_TREE_FLAT;
    must(umbra_gpc_exec(member, &call, NULL));
    for (node = 1; node < MEMBERS; node++)
        CHECK(waitpid(children[node], &status, 0) == children[node] && status == 0);
    must(umbra_gpc_leave(member));
    must(umbra_station_detach(station));
    printf("all is right\n");
    return 0;
}
