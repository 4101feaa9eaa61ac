/* umbra_dragon_memory.h: the names of managed_memory.h; included by umbra_dragon.h. */
#ifndef UMBRA_DRAGON_MEMORY_H
#define UMBRA_DRAGON_MEMORY_H

#include "umbra_dragon_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    DRAGON_MEMORY_TYPE_SHM = 0,
    DRAGON_MEMORY_TYPE_HUGEPAGE,
    DRAGON_MEMORY_TYPE_GPU,
    DRAGON_MEMORY_TYPE_FILE,
    DRAGON_MEMORY_TYPE_PRIVATE
} dragonMemoryPoolType_t;
typedef enum {
    DRAGON_MEMORY_GROWTH_NONE = 0,
    DRAGON_MEMORY_GROWTH_UNLIMITED,
    DRAGON_MEMORY_GROWTH_CAPPED
} dragonMemoryPoolGrowthType_t;
typedef enum {
    DRAGON_MEMORY_ALLOC_DATA = 0,
    DRAGON_MEMORY_ALLOC_CHANNEL,
    DRAGON_MEMORY_ALLOC_CHANNEL_BUFFER,
    DRAGON_MEMORY_ALLOC_BOOTSTRAP
} dragonMemoryAllocationType_t;

typedef struct {
    size_t allocatable_data_size, total_data_size, free_space;
    double utilization_pct;
    size_t data_min_block_size, max_allocations;
    size_t manifest_entries, max_allocatable_block_size;
    dragonLockKind_t lock_type;
    dragonMemoryPoolType_t mem_type;
    dragonMemoryPoolGrowthType_t growth_type;
    mode_t mode;
    int numa_node;
    size_t npre_allocs, *pre_allocs, n_segments, segment_size, max_size;
} dragonMemoryPoolAttr_t;

typedef struct {
    umbra_pool _pool;
    uint64_t _uid;
} dragonMemoryPoolDescr_t;

typedef struct {
    dragonMemoryPoolDescr_t _pool;
    umbra_allocation _id;
    uint64_t _offset, _length, _whole;
    int _is_lent;
    int _is_attached; /* holds a use of the pool of its own */
} dragonMemoryDescr_t;

static inline dragonError_t dragon_memory_attr_init(dragonMemoryPoolAttr_t *attr)
{
    if (attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(attr, 0, sizeof *attr);
    attr->data_min_block_size = 32;
    attr->lock_type = DRAGON_LOCK_FIFO_LITE;
    attr->mode = 0600;
    attr->numa_node = -1;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_attr_destroy(dragonMemoryPoolAttr_t *attr)
{
    return attr == NULL ? DRAGON_INVALID_ARGUMENT : DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_pool_create(dragonMemoryPoolDescr_t *pool, size_t bytes, const char *base_name,
                                                      const dragonM_UID_t m_uid, const dragonMemoryPoolAttr_t *attr)
{
    struct umbra_pool_options options;
    int code;
    if (pool == NULL || base_name == NULL || bytes == 0)
        return DRAGON_INVALID_ARGUMENT;
    memset(pool, 0, sizeof *pool);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = bytes;
    options.uid = m_uid;
    options.lifetime = UMBRA_LIFETIME_LAST_USER;
    if (attr != NULL) {
        /* Of more than half of all numbers, no power of two is as large. */
        if (attr->data_min_block_size > bytes || attr->data_min_block_size > UINT64_MAX / 2 || attr->max_allocations > UINT32_MAX)
            return DRAGON_INVALID_ARGUMENT;
        if (attr->growth_type != DRAGON_MEMORY_GROWTH_NONE || attr->npre_allocs != 0 || (attr->mode & 0777) != 0600)
            return DRAGON_NOT_IMPLEMENTED;
        if (attr->mem_type != DRAGON_MEMORY_TYPE_SHM)
            return DRAGON_MEMORY_ILLEGAL_MEMTYPE;
        options.granule = 32;
        while (options.granule < attr->data_min_block_size)
            options.granule *= 2;
        options.blocks = (uint32_t)attr->max_allocations;
    }
    code = umbra_pool_create(base_name, &options, &pool->_pool);
    pool->_uid = m_uid;
    return umbra_dragon_code(code, DRAGON_MEMORY_ERRNO);
}

static inline dragonError_t dragon_memory_pool_detach(dragonMemoryPoolDescr_t *pool)
{
    dragonError_t code =
        pool == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_code(umbra_pool_detach(pool->_pool), DRAGON_FAILURE);
    if (code == DRAGON_SUCCESS)
        pool->_pool = 0;
    return code;
}

static inline dragonError_t dragon_memory_pool_destroy(dragonMemoryPoolDescr_t *pool)
{
    int code = pool == NULL ? -UMBRA_EINVAL : umbra_pool_destroy(pool->_pool);
    return code != 0 ? umbra_dragon_code(code, DRAGON_FAILURE) : dragon_memory_pool_detach(pool);
}

static inline size_t dragon_memory_pool_max_serialized_len(void)
{
    return UMBRA_DRAGON_SERIAL;
}

/* The bytes of a pool, with so many more behind them. */
static inline dragonError_t umbra_dragon_pool_bytes(dragonSerial_t *serial, const dragonMemoryPoolDescr_t *pool,
                                                    uint8_t **behind)
{
    uint8_t bytes[UMBRA_DRAGON_PART];
    size_t length = 0;
    int code;
    if (serial == NULL || pool == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(serial, 0, sizeof *serial);
    if ((code = umbra_pool_reference(pool->_pool, bytes, sizeof bytes, &length)) != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if ((serial->data = (uint8_t *)malloc(UMBRA_DRAGON_SERIAL)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    *behind = umbra_dragon_put(serial->data, bytes, length);
    *behind = umbra_dragon_put(*behind, &pool->_uid, sizeof pool->_uid);
    return DRAGON_SUCCESS;
}

/* By a handle of its own, or by the one that all share who attach so. */
static inline dragonError_t umbra_dragon_pool_of(dragonMemoryPoolDescr_t *pool, const dragonSerial_t *serial, size_t *at,
                                                 bool is_shared)
{
    size_t length = 0, uid_length = 0;
    const uint8_t *part = umbra_dragon_get(serial, at, &length), *uid;
    if (pool == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(pool, 0, sizeof *pool);
    uid = part == NULL ? NULL : umbra_dragon_get(serial, at, &uid_length);
    if (uid == NULL || uid_length != sizeof pool->_uid)
        return DRAGON_INVALID_ARGUMENT;
    memcpy(&pool->_uid, uid, sizeof pool->_uid);
    return umbra_dragon_code(is_shared ? umbra_pool_attach_shared(part, length, &pool->_pool)
                                       : umbra_pool_attach_reference(part, length, &pool->_pool), DRAGON_FAILURE);
}

static inline dragonError_t dragon_memory_pool_serialize(dragonMemoryPoolSerial_t *serial, const dragonMemoryPoolDescr_t *pool)
{
    uint8_t *behind;
    dragonError_t code = umbra_dragon_pool_bytes(serial, pool, &behind);
    if (code == DRAGON_SUCCESS)
        umbra_dragon_seal(serial, behind);
    return code;
}

static inline dragonError_t dragon_memory_pool_serial_free(dragonMemoryPoolSerial_t *serial)
{
    return umbra_dragon_serial_free(serial);
}

static inline dragonError_t dragon_memory_pool_attach(dragonMemoryPoolDescr_t *pool, const dragonMemoryPoolSerial_t *serial)
{
    dragonSerial_t body = umbra_dragon_body(serial);
    size_t at = 0;
    return umbra_dragon_pool_of(pool, &body, &at, false);
}

static inline dragonError_t dragon_memory_pool_descr_clone(dragonMemoryPoolDescr_t *to, const dragonMemoryPoolDescr_t *from)
{
    if (to == NULL || from == NULL || from->_pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    *to = *from;
    return DRAGON_SUCCESS;
}

/* Whether both are one pool. Ids of pools do not tell: any number of pools may have 0. */
static inline bool umbra_dragon_is_same(const dragonMemoryPoolDescr_t *one, const dragonMemoryPoolDescr_t *two)
{
    uint64_t first = 0, second = 0;
    if (one->_pool == two->_pool)
        return true;
    return umbra_pool_instance(one->_pool, &first) == 0 && umbra_pool_instance(two->_pool, &second) == 0 && first == second;
}

static inline bool dragon_memory_pool_is_local(const dragonMemoryPoolDescr_t *pool)
{
    return pool != NULL && pool->_pool != 0;
}

static inline dragonError_t dragon_memory_pool_muid(dragonMemoryPoolDescr_t *pool, dragonULInt *muid)
{
    if (pool == NULL || muid == NULL || pool->_pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    *muid = pool->_uid;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_get_attr(dragonMemoryPoolDescr_t *pool, dragonMemoryPoolAttr_t *attr)
{
    struct umbra_pool_statistics statistics;
    int code;
    if (pool == NULL || attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    statistics.size = sizeof statistics;
    if ((code = umbra_pool_statistics(pool->_pool, &statistics)) != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    dragon_memory_attr_init(attr);
    attr->allocatable_data_size = attr->total_data_size = statistics.bytes;
    attr->free_space = statistics.free_bytes;
    attr->max_allocatable_block_size = statistics.longest_free_bytes;
    attr->manifest_entries = statistics.allocations;
    attr->utilization_pct = 100.0 * (double)(statistics.bytes - statistics.free_bytes) / (double)statistics.bytes;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_pool_get_free_size(dragonMemoryPoolDescr_t *pool, uint64_t *free_size)
{
    dragonMemoryPoolAttr_t attr;
    dragonError_t code = free_size == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_get_attr(pool, &attr);
    if (code == DRAGON_SUCCESS)
        *free_size = attr.free_space;
    return code;
}

static inline dragonError_t dragon_memory_pool_get_total_size(dragonMemoryPoolDescr_t *pool, uint64_t *total_size)
{
    dragonMemoryPoolAttr_t attr;
    dragonError_t code = total_size == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_get_attr(pool, &attr);
    if (code == DRAGON_SUCCESS)
        *total_size = attr.total_data_size;
    return code;
}

static inline dragonError_t dragon_memory_pool_get_utilization_pct(dragonMemoryPoolDescr_t *pool, double *utilization_pct)
{
    dragonMemoryPoolAttr_t attr;
    dragonError_t code = utilization_pct == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_get_attr(pool, &attr);
    if (code == DRAGON_SUCCESS)
        *utilization_pct = attr.utilization_pct;
    return code;
}

/* Allocations of a pool: their types and ids. */
typedef struct {
    dragonULInt nallocs, *types, *ids;
} dragonMemoryPoolAllocations_t;

static inline dragonError_t dragon_memory_pool_allocations_destroy(dragonMemoryPoolAllocations_t *allocs)
{
    if (allocs == NULL)
        return DRAGON_INVALID_ARGUMENT;
    free(allocs->types);
    free(allocs->ids);
    memset(allocs, 0, sizeof *allocs);
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_pool_allocations_free(dragonMemoryPoolAllocations_t *allocs)
{
    return dragon_memory_pool_allocations_destroy(allocs);
}

static inline dragonError_t umbra_dragon_list(const dragonMemoryPoolDescr_t *pool, uint32_t kind,
                                              dragonMemoryPoolAllocations_t *allocs)
{
    uint32_t *kinds = NULL;
    size_t count = 0, room, i;
    int code;
    if (pool == NULL || allocs == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(allocs, 0, sizeof *allocs);
    do {
        /* Others may have allocated since it was asked how many there are. */
        room = count + 64;
        free(kinds);
        dragon_memory_pool_allocations_destroy(allocs);
        kinds = (uint32_t *)malloc(room * sizeof *kinds);
        allocs->ids = (dragonULInt *)malloc(room * sizeof *allocs->ids);
        allocs->types = (dragonULInt *)malloc(room * sizeof *allocs->types);
        code = kinds == NULL || allocs->ids == NULL || allocs->types == NULL
                   ? -UMBRA_ESYSTEM
                   : umbra_pool_list(pool->_pool, kind, allocs->ids, kinds, room, &count);
    } while (code == -UMBRA_ESIZE);
    for (i = 0; code == 0 && i < count; i++)
        allocs->types[i] = kinds[i];
    allocs->nallocs = count;
    free(kinds);
    if (code != 0)
        dragon_memory_pool_allocations_destroy(allocs);
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_memory_pool_get_allocations(const dragonMemoryPoolDescr_t *pool,
                                                               dragonMemoryPoolAllocations_t *allocs)
{
    return umbra_dragon_list(pool, UINT32_MAX, allocs);
}

static inline dragonError_t dragon_memory_pool_get_type_allocations(const dragonMemoryPoolDescr_t *pool,
                                                                    const dragonMemoryAllocationType_t type,
                                                                    dragonMemoryPoolAllocations_t *allocs)
{
    return (int)type < 0 ? DRAGON_INVALID_ARGUMENT : umbra_dragon_list(pool, (uint32_t)type, allocs);
}

static inline dragonError_t umbra_dragon_alloc(dragonMemoryDescr_t *mem, const dragonMemoryPoolDescr_t *pool, size_t bytes,
                                               int type, uint64_t timeout_ms)
{
    void *address;
    int code;
    if (mem == NULL || pool == NULL || type < 0)
        return DRAGON_INVALID_ARGUMENT;
    memset(mem, 0, sizeof *mem);
    if ((code = umbra_pool_alloc(pool->_pool, bytes, (uint32_t)type, timeout_ms, &mem->_id, &address)) != 0)
        return umbra_dragon_code(code, DRAGON_DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE);
    mem->_pool = *pool;
    mem->_length = mem->_whole = bytes;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_alloc(dragonMemoryDescr_t *mem, const dragonMemoryPoolDescr_t *pool, const size_t bytes)
{
    return umbra_dragon_alloc(mem, pool, bytes, DRAGON_MEMORY_ALLOC_DATA, 0);
}

static inline dragonError_t dragon_memory_alloc_blocking(dragonMemoryDescr_t *mem, const dragonMemoryPoolDescr_t *pool,
                                                         const size_t bytes, const timespec_t *timer)
{
    return umbra_dragon_alloc(mem, pool, bytes, DRAGON_MEMORY_ALLOC_DATA, umbra_dragon_ms(timer));
}

static inline dragonError_t dragon_memory_alloc_type(dragonMemoryDescr_t *mem, const dragonMemoryPoolDescr_t *pool,
                                                     const size_t bytes, const dragonMemoryAllocationType_t type)
{
    return umbra_dragon_alloc(mem, pool, bytes, (int)type, 0);
}

static inline dragonError_t dragon_memory_alloc_type_blocking(dragonMemoryDescr_t *mem, const dragonMemoryPoolDescr_t *pool,
                                                              const size_t bytes, const dragonMemoryAllocationType_t type,
                                                              const timespec_t *timer)
{
    return umbra_dragon_alloc(mem, pool, bytes, (int)type, umbra_dragon_ms(timer));
}

static inline dragonError_t dragon_memory_get_pointer(const dragonMemoryDescr_t *mem, void **ptr)
{
    uint64_t length;
    void *address;
    int code;
    if (mem == NULL || ptr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *ptr = NULL;
    if ((code = umbra_allocation_look(mem->_pool._pool, mem->_id, &address, &length)) != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    *ptr = (uint8_t *)address + mem->_offset;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_get_size(const dragonMemoryDescr_t *mem, size_t *bytes)
{
    if (mem == NULL || bytes == NULL || mem->_pool._pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    *bytes = mem->_length;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_get_ptr_info(const dragonMemoryDescr_t *mem, void **ptr, size_t *size)
{
    dragonError_t code = dragon_memory_get_pointer(mem, ptr);
    return code != DRAGON_SUCCESS ? code : dragon_memory_get_size(mem, size);
}

static inline dragonError_t dragon_memory_get_pool(const dragonMemoryDescr_t *mem, dragonMemoryPoolDescr_t *pool)
{
    return mem == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_pool_descr_clone(pool, &mem->_pool);
}

/* Frees all of the allocation; the second time, and what was only lent, is refused. */
static inline dragonError_t dragon_memory_free(dragonMemoryDescr_t *mem)
{
    if (mem == NULL || mem->_is_lent)
        return DRAGON_INVALID_ARGUMENT;
    return umbra_dragon_code(umbra_allocation_free(mem->_pool._pool, mem->_id), DRAGON_FAILURE);
}

static inline dragonError_t dragon_memory_id(dragonMemoryDescr_t *mem, uint64_t *id)
{
    if (mem == NULL || id == NULL || mem->_pool._pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    *id = mem->_id;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_from_id(const dragonMemoryPoolDescr_t *pool, uint64_t id, dragonMemoryDescr_t *mem)
{
    uint64_t length;
    void *address;
    int code;
    if (pool == NULL || mem == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(mem, 0, sizeof *mem);
    code = umbra_allocation_look(pool->_pool, id, &address, &length);
    if (code == -UMBRA_ESTALE)
        return DRAGON_KEY_NOT_FOUND;
    if (code != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    mem->_pool = *pool;
    mem->_id = id;
    mem->_length = mem->_whole = length;
    return DRAGON_SUCCESS;
}

/* A view of a part; offset and length are within the view that it is made of. */
static inline dragonError_t dragon_memory_descr_clone(dragonMemoryDescr_t *to, const dragonMemoryDescr_t *from,
                                                      ptrdiff_t offset, size_t *length)
{
    uint64_t left;
    if (to == NULL || from == NULL || from->_pool._pool == 0 || offset < 0 || (uint64_t)offset > from->_length)
        return DRAGON_INVALID_ARGUMENT;
    left = from->_length - (uint64_t)offset;
    if (length != NULL && *length > left)
        return DRAGON_INVALID_ARGUMENT;
    *to = *from;
    to->_offset = from->_offset + (uint64_t)offset;
    to->_length = length == NULL ? left : *length;
    to->_is_attached = 0;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_get_alloc_memdescr(dragonMemoryDescr_t *mem, const dragonMemoryPoolDescr_t *pool,
                                                             const dragonULInt id, const dragonULInt offset,
                                                             const dragonULInt *bytes_size)
{
    dragonMemoryDescr_t whole;
    size_t length = bytes_size == NULL ? 0 : (size_t)*bytes_size;
    dragonError_t code = mem == NULL || offset > PTRDIFF_MAX ? DRAGON_INVALID_ARGUMENT
                                                             : dragon_memory_from_id(pool, id, &whole);
    if (code != DRAGON_SUCCESS)
        return code;
    return dragon_memory_descr_clone(mem, &whole, (ptrdiff_t)offset, bytes_size == NULL ? NULL : &length);
}

static inline dragonError_t dragon_memory_descr_move(dragonMemoryDescr_t *to, dragonMemoryDescr_t *from)
{
    const int is_attached = from != NULL && from->_is_attached;
    dragonError_t code = dragon_memory_descr_clone(to, from, 0, NULL);
    if (code != DRAGON_SUCCESS)
        return code;
    if (to != from)
        memset(from, 0, sizeof *from);
    to->_is_attached = is_attached;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_descr_destroy(dragonMemoryDescr_t *mem)
{
    if (mem == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(mem, 0, sizeof *mem);
    return DRAGON_SUCCESS;
}

static inline size_t dragon_memory_max_serialized_len(void)
{
    return UMBRA_DRAGON_SERIAL;
}

static inline dragonError_t dragon_memory_serialize(dragonMemorySerial_t *serial, const dragonMemoryDescr_t *mem)
{
    uint8_t *behind, bytes[UMBRA_DRAGON_PART];
    uint64_t view[3];
    size_t length = 0;
    int code;
    dragonError_t made;
    if (serial == NULL || mem == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(serial, 0, sizeof *serial);
    if ((code = umbra_allocation_reference(mem->_pool._pool, mem->_id, bytes, sizeof bytes, &length)) != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if ((made = umbra_dragon_pool_bytes(serial, &mem->_pool, &behind)) != DRAGON_SUCCESS)
        return made;
    view[0] = mem->_offset;
    view[1] = mem->_length;
    view[2] = mem->_is_lent ? 1 : 0;
    umbra_dragon_seal(serial, umbra_dragon_put(umbra_dragon_put(behind, bytes, length), view, sizeof view));
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_serial_free(dragonMemorySerial_t *serial)
{
    return umbra_dragon_serial_free(serial);
}

/* Attaches the pool as well, by a handle that all who attach so share: the last dragon_memory_detach gives it up, unless channels
 * or adapters that were attached are of the same pool. */
static inline dragonError_t dragon_memory_attach(dragonMemoryDescr_t *mem, const dragonMemorySerial_t *serial)
{
    dragonMemoryPoolDescr_t pool;
    dragonSerial_t body = umbra_dragon_body(serial);
    size_t at = 0, length = 0, view_length = 0;
    uint64_t view[3], whole;
    const uint8_t *part, *parts;
    void *address;
    dragonError_t code;
    int found;
    if (mem == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(mem, 0, sizeof *mem);
    if ((code = umbra_dragon_pool_of(&pool, &body, &at, true)) != DRAGON_SUCCESS)
        return code;
    part = umbra_dragon_get(&body, &at, &length);
    parts = part == NULL ? NULL : umbra_dragon_get(&body, &at, &view_length);
    if (parts == NULL || view_length != sizeof view || at != body.len) {
        dragon_memory_pool_detach(&pool);
        return DRAGON_INVALID_ARGUMENT;
    }
    memcpy(view, parts, sizeof view);
    found = umbra_allocation_find(pool._pool, part, length, &mem->_id, &address, &whole);
    if (found != 0 || view[0] > whole || view[1] > whole - view[0]) {
        dragon_memory_pool_detach(&pool);
        return found == -UMBRA_ESTALE ? DRAGON_OBJECT_DESTROYED
                                      : umbra_dragon_code(found == 0 ? -UMBRA_EINVAL : found, DRAGON_FAILURE);
    }
    mem->_pool = pool;
    mem->_offset = view[0];
    mem->_length = view[1];
    mem->_whole = whole;
    mem->_is_lent = view[2] != 0;
    mem->_is_attached = 1;
    return DRAGON_SUCCESS;
}

/* Gives up a descriptor, and its use of the pool if it was attached; other descriptors use the pool of whoever made them. */
static inline dragonError_t dragon_memory_detach(dragonMemoryDescr_t *mem)
{
    dragonError_t code = DRAGON_SUCCESS;
    if (mem == NULL || mem->_pool._pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    if (mem->_is_attached)
        code = dragon_memory_pool_detach(&mem->_pool);
    if (code == DRAGON_SUCCESS)
        memset(mem, 0, sizeof *mem);
    return code;
}

static inline dragonError_t dragon_memory_pool_allocation_exists(dragonMemoryDescr_t *mem, int *flag)
{
    uint64_t length;
    void *address;
    int code;
    if (mem == NULL || flag == NULL)
        return DRAGON_INVALID_ARGUMENT;
    code = mem->_pool._pool == 0 ? -UMBRA_EINVAL : umbra_allocation_look(mem->_pool._pool, mem->_id, &address, &length);
    *flag = code == 0;
    return code == -UMBRA_ESTALE ? DRAGON_SUCCESS : umbra_dragon_code(code, DRAGON_FAILURE);
}

/* Another length of the view, within the allocation; a view of nothing becomes an allocation, and stays what it is if there is no
 * room. */
static inline dragonError_t dragon_memory_modify_size(dragonMemoryDescr_t *mem, const size_t size, const timespec_t *timeout)
{
    if (mem == NULL || mem->_pool._pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    if (mem->_whole == 0) {
        dragonMemoryDescr_t made;
        dragonError_t code = dragon_memory_alloc_blocking(&made, &mem->_pool, size, timeout);
        if (code == DRAGON_SUCCESS) {
            made._is_attached = mem->_is_attached;
            *mem = made;
        }
        return code;
    }
    if (size > mem->_whole - mem->_offset)
        return DRAGON_INVALID_ARGUMENT;
    mem->_length = size;
    return DRAGON_SUCCESS;
}

/* Where both are, if so many bytes are in each. */
static inline dragonError_t umbra_dragon_both(dragonMemoryDescr_t *one, void **at_one, dragonMemoryDescr_t *two, void **at_two,
                                              size_t bytes)
{
    dragonError_t code = dragon_memory_get_pointer(one, at_one);
    if (code == DRAGON_SUCCESS)
        code = dragon_memory_get_pointer(two, at_two);
    if (code == DRAGON_SUCCESS && (bytes > one->_length || bytes > two->_length))
        code = DRAGON_INVALID_ARGUMENT;
    return code;
}

static inline dragonError_t dragon_memory_copy_size(dragonMemoryDescr_t *from, dragonMemoryDescr_t *to, size_t size)
{
    void *source, *target;
    dragonError_t code = umbra_dragon_both(from, &source, to, &target, size);
    if (code == DRAGON_SUCCESS)
        memmove(target, source, size);
    return code;
}

static inline dragonError_t dragon_memory_copy(dragonMemoryDescr_t *from, dragonMemoryDescr_t *to)
{
    return from == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_copy_size(from, to, from->_length);
}

static inline dragonError_t dragon_memory_copy_to_pool(dragonMemoryDescr_t *from, dragonMemoryDescr_t *to,
                                                       dragonMemoryPoolDescr_t *pool, const timespec_t *timeout)
{
    dragonError_t code =
        from == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_alloc_blocking(to, pool, from->_length, timeout);
    if (code != DRAGON_SUCCESS)
        return code;
    if ((code = dragon_memory_copy(from, to)) != DRAGON_SUCCESS)
        dragon_memory_free(to);
    return code;
}

static inline dragonError_t dragon_memory_equal(dragonMemoryDescr_t *one, dragonMemoryDescr_t *two, bool *result)
{
    void *at_one, *at_two;
    dragonError_t code = result == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_both(one, &at_one, two, &at_two, 0);
    if (code == DRAGON_SUCCESS)
        *result = one->_length == two->_length && memcmp(at_one, at_two, one->_length) == 0;
    return code;
}

static inline dragonError_t dragon_memory_hash(dragonMemoryDescr_t *mem, dragonULInt *hash_value)
{
    uint64_t hash;
    int code;
    if (mem == NULL || hash_value == NULL || mem->_length == 0)
        return DRAGON_INVALID_ARGUMENT;
    if ((code = umbra_allocation_hash(mem->_pool._pool, mem->_id, mem->_offset, mem->_length, &hash)) != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    *hash_value = hash;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_is(dragonMemoryDescr_t *one, dragonMemoryDescr_t *two, bool *result)
{
    if (one == NULL || two == NULL || result == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *result = one->_id == two->_id && umbra_dragon_is_same(&one->_pool, &two->_pool);
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_memory_clear(dragonMemoryDescr_t *mem, size_t start, size_t stop)
{
    void *address;
    dragonError_t code = dragon_memory_get_pointer(mem, &address);
    if (code == DRAGON_SUCCESS && (start > stop || stop > mem->_length))
        code = DRAGON_INVALID_ARGUMENT;
    if (code == DRAGON_SUCCESS)
        memset((uint8_t *)address + start, 0, stop - start);
    return code;
}

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_DRAGON_MEMORY_H */
