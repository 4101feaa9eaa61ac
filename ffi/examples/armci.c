/* Chained calls under the names of ARMCI: three processes, a sum over trees, and a list that each member puts itself into.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define UMBRA_ARMCI_IMPLEMENTATION
#include "umbra_armci.h"

#define MEMBERS 3

static int over;

static void check(int holds, const char *statement)
{
    char detail[512] = "";
    if (holds)
        return;
    umbra_error_detail(detail, sizeof detail, NULL);
    fprintf(stderr, "not so: %s (%s)\n", statement, detail);
    exit(1);
}

#define CHECK(statement) check((statement), #statement)

/* Answers its number behind the data, and the length of the header. */
static int say(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
               void *rdata, int rdlen, int *rdsize, int rtype)
{
    (void)from, (void)hdr;
    if (hlen == 4 && rtype == GPC_INIT)
        return GPC_PENDING;
    if (hlen == 5 && to == 2)
        return 77;
    if (rhlen > 0) {
        *(char *)rhdr = (char)hlen;
        *rhsize = 1;
    }
    if (dlen < rdlen) {
        memcpy(rdata, data, (size_t)dlen);
        ((char *)rdata)[dlen] = (char)('0' + to);
        *rdsize = dlen + 1;
    }
    return GPC_DONE;
}

/* Puts the answer of a child behind its own. */
static int join(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                void *rdata, int rdlen, int *rdsize, int rtype)
{
    const struct umbra_gpc_work *work = umbra_armci_work();
    uint32_t below[MEMBERS];
    size_t count;
    (void)rhdr, (void)rhlen, (void)rhsize;
    if (rtype != GPC_WAIT || hlen > 1 || *rdsize + dlen > rdlen)
        return 1;
    /* It finds the request beside the answer, and who is below it. */
    if (work == NULL || work->child_header != hdr || work->child_data != data || work->child != (uint32_t)from)
        return 2;
    if (work->header_length == 3 && (memcmp(work->header, "hdr", 3) != 0 || work->data_length != 1))
        return 3;
    if (umbra_gpc_work_members(work, below, MEMBERS, &count) != 0 || count < 2 || below[0] != (uint32_t)to)
        return 4;
    memcpy((char *)rdata + *rdsize, data, (size_t)dlen);
    *rdsize += dlen;
    return GPC_DONE;
}

/* Fails, as a function without data by a number that means something else outside ARMCI, and as a callback for data because
 * those cannot be pending. */
static int refuse(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                  void *rdata, int rdlen, int *rdsize, int rtype)
{
    (void)to, (void)from, (void)hdr, (void)hlen, (void)data, (void)rhdr, (void)rhlen, (void)rhsize;
    (void)rdata, (void)rdlen, (void)rdsize, (void)rtype;
    return dlen > 0 ? GPC_PENDING : -1;
}

static int end(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
               void *rdata, int rdlen, int *rdsize, int rtype)
{
    (void)to, (void)from, (void)hdr, (void)hlen, (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rhsize;
    (void)rdata, (void)rdlen, (void)rdsize, (void)rtype;
    over = 1;
    return GPC_DONE;
}

/* Would release the function that it is, whose handle is in the header. */
static int release(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                   void *rdata, int rdlen, int *rdsize, int rtype)
{
    int handle;
    (void)to, (void)from, (void)hlen, (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rhsize;
    (void)rdata, (void)rdlen, (void)rdsize, (void)rtype;
    memcpy(&handle, hdr, sizeof handle);
    return ARMCI_Gpc_release(handle) == -UMBRA_EDEADLOCK ? GPC_DONE : 1;
}

/* What a handler may not do changes nothing. */
static void handlers(void)
{
    int handle = ARMCI_Gpc_register(release), times;
    for (times = 0; times < 2; times++)
        CHECK(ARMCI_Gpc_exec(handle, 0, &handle, sizeof handle, NULL, 0, NULL, 0, NULL, 0, NULL) == 0);
    CHECK(ARMCI_Gpc_release(handle) == 0);
    CHECK(umbra_armci_work() == NULL);
    CHECK(ARMCI_Gpc_wait(NULL) == -UMBRA_EINVAL && ARMCI_Gpc_test(NULL) == -UMBRA_EINVAL);
    ARMCI_Gpc_init_handle(NULL);
}

static int below_the_one_before(int count, int position)
{
    return position < count ? position - 1 : count;
}

struct handles {
    int say, join, refuse, end;
    /* The same function by the words of another one at the last member, and by words that mean the same there. */
    int other, same;
};

#define yes say
#define no say

static umbra_member take_part(umbra_station station, uint32_t node, struct handles *handles)
{
    umbra_member member;
    struct umbra_gpc_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.calls = 16;
    /* The data, the reply, those of two children, and lists. */
    options.call_bytes = 4 * ARMCI_GPC_DLEN + 4096;
    CHECK(umbra_gpc_join(station, node, &options, &member) == 0);
    CHECK(umbra_armci_use(member, node) == 0);
    handles->say = ARMCI_Gpc_register(say);
    handles->join = ARMCI_Gpc_register(join);
    handles->refuse = ARMCI_Gpc_register(refuse);
    handles->end = ARMCI_Gpc_register(end);
    CHECK(handles->say == -100 && handles->join == -101 && handles->refuse == -102 && handles->end == -103);
    handles->other = node == MEMBERS - 1 ? ARMCI_Gpc_register(yes) : ARMCI_Gpc_register(no);
    handles->same = node == MEMBERS - 1 ? ARMCI_Gpc_register(say) : ARMCI_Gpc_register(&say);
    CHECK(handles->other == -104 && handles->same == -105);
    return member;
}

static void calls(const struct handles *handles)
{
    int list[2] = {1, 2}, tree = ARMCI_Gpc_register_tree(below_the_one_before);
    static char long_header[ARMCI_GPC_HLEN];
    static const char *const in_order[] = {"x0x1x2", "x0x1x2", "x0x1x2", "x0x1x2", "x0x1x2"};
    char length = 0, text[32], detail[200];
    gpc_hdl_t handle;
    int at, ended;
    ARMCI_Gpc_init_handle(&handle);
    CHECK(tree == 4);
    for (at = 0; at <= tree; at++) {
        memset(text, 0, sizeof text);
        CHECK(ARMCI_Gpc_chained_exec(handles->say, handles->join, "hdr", 3, "x", 1, &length, 1, text, 31, 2, list, &handle,
                                     at) == 0);
        CHECK(ARMCI_Gpc_exec(handles->say, 1, NULL, 0, NULL, 0, NULL, 0, text, 31, &handle) == -UMBRA_EINUSE);
        while ((ended = ARMCI_Gpc_test(&handle)) == 0)
            ;
        CHECK(ended == 1 && ARMCI_Gpc_wait(&handle) == 0 && ARMCI_Gpc_wait(&handle) == 0);
        CHECK(length == 3 && handle.rhsize == 1 && handle.rdsize == 6);
        /* Answers come in any order, but each member first. */
        CHECK(strcmp(text, in_order[at]) == 0 || (at < GPC_TREE_CHAIN && strcmp(text, "x0x2x1") == 0));
    }
    for (at = 0; at < MEMBERS; at++) {
        memset(text, 0, sizeof text);
        CHECK(ARMCI_Gpc_exec(handles->say, at, "hdrs", 4, "y", 1, &length, 1, text, 31, NULL) == 0);
        CHECK(length == 4 && text[0] == 'y' && text[1] == '0' + at && text[2] == 0);
    }
    /* Nothing is answered, and nothing need be. */
    CHECK(ARMCI_Gpc_chained_exec(handles->say, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 2, list, NULL, 0) == 0);
    CHECK(ARMCI_Gpc_chained_exec(handles->say, handles->join, "fault", 5, NULL, 0, NULL, 0, text, 31, 2, list, NULL, 0) ==
          -UMBRA_ECALL);
    CHECK(ARMCI_Gpc_exec(handles->refuse, 1, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == -UMBRA_ECALL);
    CHECK(umbra_error_detail(detail, sizeof detail, NULL) == 0 && strstr(detail, "the function failed with 1;") != NULL);
    /* The callback fails for an answer with data, and for one without. */
    for (at = 0; at < 2; at++) {
        CHECK(ARMCI_Gpc_chained_exec(handles->say, handles->refuse, NULL, 0, NULL, 0, NULL, 0, text, 31 * at, 2, list, NULL,
                                     0) == -UMBRA_ECALL);
        CHECK(umbra_error_detail(detail, sizeof detail, NULL) == 0 && strstr(detail, "callback") != NULL);
    }
    CHECK(ARMCI_Gpc_get_hlen() == ARMCI_GPC_HLEN && ARMCI_Gpc_get_dlen() == ARMCI_GPC_DLEN);
    CHECK(ARMCI_Gpc_register(NULL) == -UMBRA_EINVAL);
    /* The longest header; armci_refusals.c has all that is too long or wrong otherwise. */
    CHECK(ARMCI_Gpc_chained_exec(handles->say, handles->join, long_header, ARMCI_GPC_HLEN, NULL, 0, NULL, 0, text, 31, 2, list,
                                 &handle, 0) == -UMBRA_ETOOLONG);
    CHECK(ARMCI_Gpc_chained_exec(handles->say, handles->join, long_header, ARMCI_GPC_HLEN - 1, NULL, 0, NULL, 0, text, 31, 2,
                                 list, &handle, 0) == 0);
    CHECK(ARMCI_Gpc_wait(&handle) == 0);
}

/* Data of any length below the limit goes down, and up, where members have room for it. */
static void longest(const struct handles *handles)
{
    static char sent[ARMCI_GPC_DLEN - 1], answer[ARMCI_GPC_DLEN - 1];
    const int most = ARMCI_GPC_DLEN - 1;
    char length = 0;
    memset(sent, 'l', sizeof sent);
    CHECK(ARMCI_Gpc_exec(handles->say, 1, "hdr", 3, sent, most - 1, &length, 1, answer, most, NULL) == 0);
    CHECK(length == 3 && memcmp(answer, sent, sizeof answer - 1) == 0 && answer[most - 1] == '1');
    /* With no byte left for its number it answers the length of the header alone. */
    CHECK(ARMCI_Gpc_exec(handles->say, 2, "hdrs", 4, sent, most, &length, 1, answer, most, NULL) == 0 && length == 4);
}

/* A function that the last member has registered in another order is not taken for the one that it has there. */
static void orders(const struct handles *handles)
{
    int list[2] = {1, 2};
    char text[32], detail[200];
    memset(text, 0, sizeof text);
    CHECK(ARMCI_Gpc_exec(handles->other, 1, NULL, 0, "z", 1, NULL, 0, text, 31, NULL) == 0 && strcmp(text, "z1") == 0);
    CHECK(ARMCI_Gpc_exec(handles->other, 2, NULL, 0, "z", 1, NULL, 0, text, 31, NULL) == -UMBRA_ECALL);
    CHECK(umbra_error_detail(detail, sizeof detail, NULL) == 0 && strstr(detail, "member 2") != NULL);
    CHECK(ARMCI_Gpc_chained_exec(handles->say, handles->other, NULL, 0, NULL, 0, NULL, 0, text, 31, 2, list, NULL,
                                 GPC_TREE_CHAIN) == -UMBRA_ECALL);
    CHECK(ARMCI_Gpc_exec(handles->same, 2, NULL, 0, "z", 1, NULL, 0, text, 31, NULL) == 0 && strcmp(text, "z2") == 0);
}

int main(void)
{
    struct umbra_station_options options;
    struct handles handles;
    umbra_station station;
    umbra_member member;
    pid_t parent = getpid(), children[MEMBERS];
    int descriptor, status, list[2] = {1, 2};
    uint32_t node;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = MEMBERS;
    options.messages = 16;
    options.message_bytes = ARMCI_GPC_DLEN + 4096;
    CHECK(umbra_station_create(&options, &station) == 0 && umbra_station_share(station, &descriptor) == 0);
    for (node = 1; node < MEMBERS; node++) {
        children[node] = fork();
        CHECK(children[node] >= 0);
        if (children[node] != 0)
            continue;
        CHECK(umbra_station_attach(descriptor, &station) == 0);
        member = take_part(station, node, &handles);
        while (!over && getppid() == parent)
            CHECK(umbra_gpc_serve(member, 20) == 0);
        CHECK(umbra_gpc_serve(member, 0) == 0 && umbra_gpc_leave(member) == 0);
        return 0;
    }
    member = take_part(station, 0, &handles);
    calls(&handles);
    longest(&handles);
    orders(&handles);
    handlers();
    CHECK(ARMCI_Gpc_chained_exec(handles.end, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 2, list, NULL, GPC_TREE_FLAT) == 0);
    for (node = 1; node < MEMBERS; node++)
        CHECK(waitpid(children[node], &status, 0) == children[node] && status == 0);
    CHECK(ARMCI_Gpc_release(handles.say) == 0 && ARMCI_Gpc_release(handles.say) == -UMBRA_ENOFUNCTION);
    CHECK(ARMCI_Gpc_register(join) == handles.say && ARMCI_Gpc_release(handles.say) == 0);
    CHECK(ARMCI_Gpc_register(say) == handles.say);
    CHECK(umbra_gpc_leave(member) == 0);
    printf("all is right\n");
    return 0;
}
