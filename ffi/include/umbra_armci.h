/* umbra_armci.h: chained global procedure calls under the names that ARMCI has for them.
 *
 * One source file defines UMBRA_ARMCI_IMPLEMENTATION in front of the include and gets the functions, all others their
 * declarations. A process takes part as one member of umbra.h, which it names by umbra_armci_use; the processes of calls are
 * numbers of members. As in ARMCI, all processes register the same functions in the same order, and here in the same words: a
 * handle whose function a process has registered in other words, which is another function if the order differs, is none there,
 * and a call of it fails with -UMBRA_ECALL.
 *
 * Other than in ARMCI nothing aborts: functions return 0 or a negative code of umbra.h, registering is not collective, actual
 * lengths of replies are told, a reply may be empty, and a handler that fails returns its number, by which the call fails with
 * -UMBRA_ECALL. A call may take a minute (UMBRA_ARMCI_TIMEOUT_MS, which the file with the implementation may define otherwise,
 * up to UMBRA_GPC_LONGEST_MS), then it fails as one that hangs. None of these functions but umbra_armci_work may be called in a
 * handler (-UMBRA_EDEADLOCK). They are for one thread.
 *
 * A call that is wrong is refused before anything is sent, as umbra_gpc_start says, and umbra_error_detail tells what is wrong. Its
 * nbh is as before, and the next call may have it.
 *
 * A handler finds idlst by umbra_armci_list, in the order in which the tree is written down: the caller, whether it was in idlst or
 * not, then its children, each with all that is below it behind it. This order is the same at all processes, and each finds its own
 * subtree in it one after the other, which umbra_gpc_work_members tells. A list that is too long for a request, or for the memory of
 * the caller, goes in parts: each process then gets its subtree alone, the call runs as it would otherwise, and umbra_armci_list says
 * that there is none. Nobody tries that for another process: one with less memory for calls than the caller, or with more children in
 * a stated tree, may have no room for the list, and fails the call with -UMBRA_ECALL.
 */
#ifndef UMBRA_ARMCI_H
#define UMBRA_ARMCI_H

#include "umbra.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a handler runs, and what it returns. */
#define GPC_INIT UMBRA_GPC_INIT
#define GPC_PROBE UMBRA_GPC_PROBE
#define GPC_WAIT UMBRA_GPC_WAIT
#define GPC_DONE 4
#define GPC_PENDING 5               /* run it again in a while, as GPC_PROBE; a callback fails by it */

/* Lengths are less than these, and a call may also be too long for the inboxes of its members: -UMBRA_ETOOLONG. */
#define ARMCI_GPC_HLEN 1025
#define ARMCI_GPC_DLEN 65536

/* Trees over the caller and then the list. */
#define GPC_TREE_BINARY UMBRA_TREE_BINARY
#define GPC_TREE_BINOMIAL UMBRA_TREE_BINOMIAL
#define GPC_TREE_FLAT UMBRA_TREE_FLAT
#define GPC_TREE_CHAIN UMBRA_TREE_CHAIN

/* A handler. As function: hdr and data of the request, from its maker, to the process that runs it; it writes its reply and
 * says how long it is. As callback: hdr and data of the answer of process from; rhdr, rdata and their sizes are the reply that
 * it is combined into, and rtype is GPC_WAIT. */
typedef int (*gpc_handler_t)(int to, int from, void *hdr, int hlen, const void *data, int dlen, void *rhdr, int rhlen,
                             int *rhsize, void *rdata, int rdlen, int *rdsize, int rtype);

/* A call that goes on. */
typedef struct {
    umbra_call call;                /* 0: none */
    void *rhdr, *rdata;
    int rhlen, rdlen;
    int rhsize, rdsize;             /* of the reply, once it is there */
} gpc_hdl_t;

/* What umbra.h tells the handler that runs: the request of the call for callbacks, too (header and data), the parent, the child
 * and how many members are below it, and for umbra_gpc_work_members and umbra_gpc_work_call. A handler makes calls of its own by
 * umbra_gpc_work_start. NULL where no handler runs. What the reply is the handler says by its own arguments. */
const struct umbra_gpc_work *umbra_armci_work(void);

/* The processes of the call, in a handler of ARMCI_Gpc_chained_exec. -UMBRA_ESIZE: there is no room for them, and how many they are was
 * stored. -UMBRA_EINVAL: the caller had no room for the list, or the call has none, as those of ARMCI_Gpc_exec; or no handler runs. */
int umbra_armci_list(int *idlst, int capacity, int *idlen);

/* The member by which this process takes part, and its number; it needs room for 33 functions. */
int umbra_armci_use(umbra_member member, uint32_t node);

/* The handle of a function, a negative number from -100 down, or -UMBRA_EFULL, which is -8: there are 32 already. Its words are
 * those of the argument: f or &f. Without the macro, as (ARMCI_Gpc_register)(f), there are none, and any order is believed. */
int ARMCI_Gpc_register(gpc_handler_t handler);
int umbra_armci_register(gpc_handler_t handler, const char *words);
#define ARMCI_Gpc_register(handler) umbra_armci_register((handler), #handler)
/* Takes no new calls of it (-UMBRA_ENOFUNCTION); its place can be had again when those under way have ended. */
int ARMCI_Gpc_release(int handle);
/* The number of a tree stated by the parent of each position, -1 for position 0; or -UMBRA_EFULL: there are 8 already. Only
 * the process that makes a call needs it. It is asked and checked for every call: one that is no tree, and a number that no tree
 * has, is -UMBRA_EINVAL. Who has lists of children makes parents of them by umbra_gpc_parents. */
int ARMCI_Gpc_register_tree(int (*parent_of)(int count, int position));

int ARMCI_Gpc_get_hlen(void);
int ARMCI_Gpc_get_dlen(void);

/* Runs a function at process p, without a tree. With nbh the call goes on meanwhile; -UMBRA_EINUSE: another one does already. */
int ARMCI_Gpc_exec(int handle, int p, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, void *rdata,
                   int rdlen, gpc_hdl_t *nbh);
/* Runs func at the caller and at all of the list, over a tree, and callback (or 0: nothing is answered) where there are
 * children, for the answer of each. */
int ARMCI_Gpc_chained_exec(int func, int callback, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen,
                           void *rdata, int rdlen, int idlen, int *idlst, gpc_hdl_t *nbh, int TREE);
void ARMCI_Gpc_init_handle(gpc_hdl_t *nbh);
/* Waits for the call, and writes its reply; a handle without a call is done. */
int ARMCI_Gpc_wait(gpc_hdl_t *nbh);
/* Whether ARMCI_Gpc_wait would return at once: 1, 0, or a negative code. */
int ARMCI_Gpc_test(gpc_hdl_t *nbh);

#ifdef UMBRA_ARMCI_IMPLEMENTATION

#include <stdio.h>
#include <string.h>

/* Milliseconds that a call may take. */
#ifndef UMBRA_ARMCI_TIMEOUT_MS
#define UMBRA_ARMCI_TIMEOUT_MS 60000
#endif

#define UMBRA_ARMCI_FUNCTIONS 32
#define UMBRA_ARMCI_TREES 8
#define UMBRA_ARMCI_FIRST (-100)

static struct {
    umbra_member member;
    uint32_t node;
    gpc_handler_t handlers[UMBRA_ARMCI_FUNCTIONS];
    /* Of the words by which each was registered. */
    unsigned long sums[UMBRA_ARMCI_FUNCTIONS];
    /* One that was released stays for the calls that are under way. */
    int registered[UMBRA_ARMCI_FUNCTIONS];
    int (*trees[UMBRA_ARMCI_TREES])(int, int);
    /* Of the handler that runs. */
    const struct umbra_gpc_work *work;
} umbra_armci;

/* FNV-1a, in 32 bits. */
static unsigned long umbra_armci_sum(const char *words)
{
    unsigned long sum = 2166136261ul;
    if (*words == '&')
        words++;
    for (; *words != 0; words++)
        sum = ((sum ^ (unsigned char)*words) * 16777619ul) & 0xfffffffful;
    return sum;
}

static void umbra_armci_name(char name[32], int slot)
{
    sprintf(name, "armci-gpc-%d-%08lx", slot, umbra_armci.sums[slot]);
}

static int umbra_armci_run(void *user, struct umbra_gpc_work *work)
{
    gpc_handler_t handler = *(gpc_handler_t *)user;
    int as_callback = work->phase == UMBRA_GPC_WAIT, verdict;
    int rhsize = (int)work->reply_header_length, rdsize = (int)work->reply_data_length;
    const void *header = as_callback ? work->child_header : work->header;
    size_t header_length = as_callback ? work->child_header_length : work->header_length;
    umbra_armci.work = work;
    verdict = handler((int)work->node, (int)(as_callback ? work->child : work->maker), (void *)(uintptr_t)header,
                      (int)header_length, as_callback ? work->child_data : work->data,
                      (int)(as_callback ? work->child_data_length : work->data_length), work->reply_header,
                      (int)work->reply_header_capacity, &rhsize, work->reply_data, (int)work->reply_data_capacity, &rdsize,
                      (int)work->phase);
    umbra_armci.work = NULL;
    /* A negative size is one that no reply has room for. */
    work->reply_header_length = (size_t)rhsize;
    work->reply_data_length = (size_t)rdsize;
    if (verdict == GPC_DONE)
        return 0;
    if (verdict == GPC_PENDING)
        return as_callback ? GPC_PENDING : UMBRA_GPC_PENDING;
    /* These two mean something else there; signs of numbers are lost on the way in any case. */
    return verdict == 0 || verdict == UMBRA_GPC_PENDING ? 1 : verdict;
}

const struct umbra_gpc_work *umbra_armci_work(void)
{
    return umbra_armci.work;
}

int umbra_armci_list(int *idlst, int capacity, int *idlen)
{
    size_t count = 0;
    int code;
    if (capacity < 0 || idlen == NULL)
        return umbra_error_put(UMBRA_EINVAL, idlen == NULL ? "idlen is NULL" : "the capacity is negative");
    /* Numbers of processes are not negative, so they are the same numbers. */
    code = umbra_gpc_work_list(umbra_armci.work, (uint32_t *)idlst, (size_t)capacity, &count);
    if (code == 0 || code == -UMBRA_ESIZE)
        *idlen = (int)count;
    return code;
}

/* The callback of calls without a tree: the one answer is the reply. */
static int umbra_armci_take(void *user, struct umbra_gpc_work *work)
{
    (void)user;
    if (work->child_header_length > 0)
        memcpy(work->reply_header, work->child_header, work->child_header_length);
    if (work->child_data_length > 0)
        memcpy(work->reply_data, work->child_data, work->child_data_length);
    work->reply_header_length = work->child_header_length;
    work->reply_data_length = work->child_data_length;
    return 0;
}

static uint32_t umbra_armci_parent(void *user, uint32_t count, uint32_t position)
{
    int parent = (*(int (**)(int, int))user)((int)count, (int)position);
    return parent < 0 ? UMBRA_TREE_ROOT : (uint32_t)parent;
}

int umbra_armci_use(umbra_member member, uint32_t node)
{
    int code = umbra_gpc_register(member, "armci-gpc-take", umbra_armci_take, NULL);
    if (code != 0)
        return code;
    umbra_armci.member = member;
    umbra_armci.node = node;
    return 0;
}

/* Refuses something by its code and its number. */
static int umbra_armci_refuse(int code, const char *why, int number)
{
    char detail[128];
    sprintf(detail, "%.100s: %d", why, number);
    return umbra_error_put(code, detail);
}

int umbra_armci_register(gpc_handler_t handler, const char *words)
{
    char name[32];
    int slot, code;
    if (handler == NULL || words == NULL)
        return umbra_error_put(UMBRA_EINVAL, "the handler or its words are NULL");
    for (slot = 0; slot < UMBRA_ARMCI_FUNCTIONS; slot++) {
        if (umbra_armci.registered[slot])
            continue;
        if (umbra_armci.handlers[slot] != NULL) {
            umbra_armci_name(name, slot);
            /* Its name can be had again when no call uses the one that was released. */
            code = umbra_gpc_register(umbra_armci.member, name, umbra_armci_run, &umbra_armci.handlers[slot]);
            if (code == -UMBRA_EKEYTAKEN)
                continue;
            if (code == 0)
                code = umbra_gpc_release(umbra_armci.member, name);
            if (code != 0)
                return code;
        }
        umbra_armci.sums[slot] = umbra_armci_sum(words);
        umbra_armci_name(name, slot);
        code = umbra_gpc_register(umbra_armci.member, name, umbra_armci_run, &umbra_armci.handlers[slot]);
        if (code != 0)
            return code;
        umbra_armci.handlers[slot] = handler;
        umbra_armci.registered[slot] = 1;
        return UMBRA_ARMCI_FIRST - slot;
    }
    return umbra_armci_refuse(UMBRA_EFULL, "functions that are registered", UMBRA_ARMCI_FUNCTIONS);
}

int (ARMCI_Gpc_register)(gpc_handler_t handler)
{
    return umbra_armci_register(handler, "");
}

/* Where the function of a handle is, or -UMBRA_ENOFUNCTION. */
static int umbra_armci_slot(int handle)
{
    int slot = handle > UMBRA_ARMCI_FIRST ? UMBRA_ARMCI_FUNCTIONS : UMBRA_ARMCI_FIRST - handle;
    if (slot < UMBRA_ARMCI_FUNCTIONS && umbra_armci.registered[slot])
        return slot;
    return umbra_armci_refuse(UMBRA_ENOFUNCTION, "no function has this handle", handle);
}

int ARMCI_Gpc_release(int handle)
{
    char name[32];
    int slot = umbra_armci_slot(handle), code;
    if (slot < 0)
        return slot;
    umbra_armci_name(name, slot);
    code = umbra_gpc_release(umbra_armci.member, name);
    if (code == 0)
        umbra_armci.registered[slot] = 0;
    return code;
}

int ARMCI_Gpc_register_tree(int (*parent_of)(int count, int position))
{
    int slot;
    if (parent_of == NULL)
        return umbra_error_put(UMBRA_EINVAL, "the function that states the tree is NULL");
    for (slot = 0; slot < UMBRA_ARMCI_TREES; slot++)
        if (umbra_armci.trees[slot] == NULL) {
            umbra_armci.trees[slot] = parent_of;
            return GPC_TREE_CHAIN + 1 + slot;
        }
    return umbra_armci_refuse(UMBRA_EFULL, "trees that are registered", UMBRA_ARMCI_TREES);
}

int ARMCI_Gpc_get_hlen(void)
{
    return ARMCI_GPC_HLEN;
}

int ARMCI_Gpc_get_dlen(void)
{
    return ARMCI_GPC_DLEN;
}

static int umbra_armci_fits(const char *what, const void *bytes, int length, int limit)
{
    char detail[128];
    if (length >= 0 && length < limit && (bytes != NULL || length == 0))
        return 0;
    sprintf(detail, "%.40s of %d bytes%s, at most %d are taken", what, length, bytes == NULL ? " at NULL" : "", limit - 1);
    return umbra_error_put(length >= limit ? UMBRA_ETOOLONG : UMBRA_EINVAL, detail);
}

static int umbra_armci_start(struct umbra_gpc_call *call, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen,
                             void *rdata, int rdlen, gpc_hdl_t *nbh)
{
    gpc_hdl_t own;
    int code = umbra_armci_fits("a header", hdr, hlen, ARMCI_GPC_HLEN);
    if (code == 0)
        code = umbra_armci_fits("data", data, dlen, ARMCI_GPC_DLEN);
    if (code == 0)
        code = umbra_armci_fits("a header of the reply", rhdr, rhlen, ARMCI_GPC_HLEN);
    if (code == 0)
        code = umbra_armci_fits("data of the reply", rdata, rdlen, ARMCI_GPC_DLEN);
    if (code == 0 && nbh != NULL && nbh->call != 0)
        code = umbra_error_put(UMBRA_EINUSE, "the handle has a call that goes on: wait for it");
    if (code != 0)
        return code;
    call->size = sizeof *call;
    call->header = hdr;
    call->header_length = (size_t)hlen;
    call->data = data;
    call->data_length = (size_t)dlen;
    call->reply_header = (size_t)rhlen;
    call->reply_data = (size_t)rdlen;
    call->timeout_ms = UMBRA_ARMCI_TIMEOUT_MS;
    ARMCI_Gpc_init_handle(&own);
    own.rhdr = rhdr;
    own.rhlen = rhlen;
    own.rdata = rdata;
    own.rdlen = rdlen;
    code = umbra_gpc_start(umbra_armci.member, call, &own.call);
    if (code == -UMBRA_ETOOLONG && (call->mode & UMBRA_GPC_FULL_LIST) != 0) {
        /* Perhaps by the list, which can go in parts. */
        call->mode &= ~(uint32_t)UMBRA_GPC_FULL_LIST;
        code = umbra_gpc_start(umbra_armci.member, call, &own.call);
    }
    if (code != 0)
        return code;
    if (nbh == NULL)
        return ARMCI_Gpc_wait(&own);
    *nbh = own;
    return 0;
}

int ARMCI_Gpc_exec(int handle, int p, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, void *rdata,
                   int rdlen, gpc_hdl_t *nbh)
{
    struct umbra_gpc_call call;
    char name[32];
    uint32_t member = (uint32_t)p;
    int slot = umbra_armci_slot(handle);
    if (slot < 0)
        return slot;
    if (p < 0)
        return umbra_armci_refuse(UMBRA_EINVAL, "no process has this number", p);
    umbra_armci_name(name, slot);
    memset(&call, 0, sizeof call);
    call.function = name;
    call.callback = "armci-gpc-take";
    call.members = &member;
    call.count = 1;
    call.mode = member == umbra_armci.node ? 0 : UMBRA_GPC_COORDINATE;
    return umbra_armci_start(&call, hdr, hlen, data, dlen, rhdr, rhlen, rdata, rdlen, nbh);
}

int ARMCI_Gpc_chained_exec(int func, int callback, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen,
                           void *rdata, int rdlen, int idlen, int *idlst, gpc_hdl_t *nbh, int TREE)
{
    struct umbra_gpc_call call;
    char name[32], back[32];
    int slot = umbra_armci_slot(func), answers = 0, at;
    int tree = TREE < 0 ? UMBRA_ARMCI_TREES : TREE - GPC_TREE_CHAIN - 1;
    if (slot < 0)
        return slot;
    if (callback != 0)
        answers = umbra_armci_slot(callback);
    if (answers < 0)
        return answers;
    if (idlen < 0 || (idlst == NULL && idlen > 0))
        return umbra_armci_refuse(UMBRA_EINVAL, idlst == NULL ? "a list at NULL, of length" : "a list of length", idlen);
    if (tree >= UMBRA_ARMCI_TREES || (tree >= 0 && umbra_armci.trees[tree] == NULL))
        return umbra_armci_refuse(UMBRA_EINVAL, "no tree has this number", TREE);
    for (at = 0; at < idlen; at++)
        if (idlst[at] < 0)
            return umbra_armci_refuse(UMBRA_EINVAL, "no process has this number", idlst[at]);
    umbra_armci_name(name, slot);
    umbra_armci_name(back, answers);
    memset(&call, 0, sizeof call);
    call.function = name;
    call.callback = callback == 0 ? NULL : back;
    /* None of them is negative, so they are the same numbers. */
    call.members = (const uint32_t *)idlst;
    call.count = (size_t)idlen;
    call.mode = UMBRA_GPC_FULL_LIST;
    if (tree < 0) {
        call.tree = (uint32_t)TREE;
    } else {
        call.parent_of = umbra_armci_parent;
        call.user = &umbra_armci.trees[tree];
    }
    return umbra_armci_start(&call, hdr, hlen, data, dlen, rhdr, rhlen, rdata, rdlen, nbh);
}

void ARMCI_Gpc_init_handle(gpc_hdl_t *nbh)
{
    if (nbh != NULL)
        memset(nbh, 0, sizeof *nbh);
}

int ARMCI_Gpc_wait(gpc_hdl_t *nbh)
{
    struct umbra_gpc_answer answer;
    umbra_call call;
    int code;
    if (nbh == NULL)
        return umbra_error_put(UMBRA_EINVAL, "the handle of the call is NULL");
    call = nbh->call;
    if (call == 0)
        return 0;
    memset(&answer, 0, sizeof answer);
    answer.size = sizeof answer;
    answer.header = nbh->rhdr;
    answer.header_capacity = (size_t)nbh->rhlen;
    answer.data = nbh->rdata;
    answer.data_capacity = (size_t)nbh->rdlen;
    code = umbra_gpc_wait(umbra_armci.member, call, UMBRA_FOREVER, &answer);
    if (code == -UMBRA_EDEADLOCK)
        return code; /* a handler waits for it: it goes on */
    nbh->call = 0;
    nbh->rhsize = (int)answer.header_length;
    nbh->rdsize = (int)answer.data_length;
    return code;
}

int ARMCI_Gpc_test(gpc_hdl_t *nbh)
{
    int ended = 1, code;
    if (nbh == NULL)
        return umbra_error_put(UMBRA_EINVAL, "the handle of the call is NULL");
    code = nbh->call == 0 ? 0 : umbra_gpc_test(umbra_armci.member, nbh->call, &ended);
    return code == 0 ? ended : code;
}

#endif /* UMBRA_ARMCI_IMPLEMENTATION */

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_ARMCI_H */
