/* A stencil cache in C by all that it can be told: places for outputs, inputs that are given back one by one, ids of any kind, and
 * futures that are computed or listed.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#include <stddef.h>

#include "check.h"

#define SLOTS 6

static struct umbra_stencil_options plain(void)
{
    struct umbra_stencil_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.first_slot = 10;
    options.slots = SLOTS;
    options.inputs = 9;
    options.groups = 2;
    options.largest_group = 3;
    options.active = 2;
    return options;
}

/* Answers all loads at once, and returns the group that is ready, or 0; last and loads get what was loaded. */
static uint64_t ready(umbra_stencil stencil, uint64_t *last, unsigned *loads)
{
    struct umbra_stencil_action action;
    uint64_t group = 0;
    action.size = sizeof action;
    for (;;) {
        must(umbra_stencil_poll(stencil, &action));
        if (action.kind == UMBRA_ACTION_NONE)
            return group;
        if (action.kind == UMBRA_ACTION_PREPARE) {
            *last = action.data;
            *loads += 1;
            must(umbra_stencil_prepared(stencil, action.data));
        } else {
            CHECK(action.kind == UMBRA_ACTION_READY && group == 0);
            group = action.group;
        }
    }
}

/* Two inputs and a place for what is computed from them, which a later group finds as an input. */
static void outputs(void)
{
    const struct umbra_stencil_member sum[3] = {{1, UMBRA_MEMBER_LOAD}, {2, UMBRA_MEMBER_LOAD}, {7, UMBRA_MEMBER_SCRATCH}};
    const struct umbra_stencil_member odd[2] = {{1, UMBRA_MEMBER_LOAD}, {2, 2}};
    const struct umbra_stencil_member both[2] = {{7, UMBRA_MEMBER_LOAD}, {7, UMBRA_MEMBER_SCRATCH}};
    const uint64_t of_output[2] = {7, 1};
    struct umbra_stencil_options options = plain();
    struct umbra_cache_statistics told;
    double memory[10 + SLOTS] = {0};
    uint32_t slots[3], later[2];
    uint64_t group, other = 77, last;
    unsigned loads = 0;
    umbra_stencil stencil;
    size_t count;

    doing = "a place for an output";
    must(umbra_stencil_create(&options, &stencil));
    CHECK(umbra_stencil_submit_members(stencil, 0, odd, 2, &other) == -UMBRA_EINVAL);
    CHECK(umbra_stencil_alloc_members(stencil, 0, odd, 2, 0, &other) == -UMBRA_EINVAL && other == 77);
    CHECK(umbra_stencil_submit_members(stencil, 0, both, 2, &other) == -UMBRA_EINVAL);
    CHECK(umbra_stencil_alloc_members(stencil, 0, both, 2, 0, &other) == -UMBRA_EINVAL && other == 77);
    must(umbra_stencil_submit_members(stencil, 0, sum, 3, &group));
    CHECK(umbra_stencil_hand_over(stencil, group, slots, 3, &count) == -UMBRA_ENOTREADY);
    CHECK(umbra_stencil_free(stencil, 1) == -UMBRA_ENOTREADY);
    CHECK(ready(stencil, &last, &loads) == group && loads == 2);

    doing = "references one by one";
    CHECK(umbra_stencil_free(stencil, 1) == -UMBRA_ENOTREADY);
    CHECK(umbra_stencil_hand_over(stencil, group, slots, 3, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_stencil_hand_over(stencil, group, NULL, 3, &count) == -UMBRA_EINVAL);
    CHECK(umbra_stencil_hand_over(stencil, group, slots, 2, &count) == -UMBRA_ESIZE && count == 3);
    must(umbra_stencil_hand_over(stencil, group, slots, 3, &count));
    CHECK(count == 3 && slots[0] != slots[1] && slots[1] != slots[2] && slots[0] != slots[2]);
    CHECK(umbra_stencil_hand_over(stencil, group, slots, 3, &count) == -UMBRA_ESTALE);
    CHECK(umbra_stencil_free_group(stencil, group) == -UMBRA_ESTALE);
    CHECK(slots[0] >= 10 && slots[1] >= 10 && slots[2] < 10 + SLOTS);
    memory[slots[0]] = 1.5;
    memory[slots[1]] = 2;
    memory[slots[2]] = memory[slots[0]] + memory[slots[1]];
    must(umbra_stencil_free(stencil, 7));
    must(umbra_stencil_free(stencil, 2));
    CHECK(umbra_stencil_free(stencil, 2) == -UMBRA_EUNUSED);
    CHECK(umbra_stencil_free(stencil, 3) == -UMBRA_ENOSLOT);
    CHECK(umbra_stencil_free(stencil, 1 << 20) == -UMBRA_ENOSLOT);

    doing = "an output as an input";
    must(umbra_stencil_alloc(stencil, 1, of_output, 2, 60000, &group));
    CHECK(ready(stencil, &last, &loads) == group && loads == 2);
    must(umbra_stencil_slots(stencil, group, later, 2, &count));
    CHECK(count == 2 && later[0] == slots[2] && later[1] == slots[0] && memory[later[0]] == 3.5);
    must(umbra_stencil_free_group(stencil, group));
    must(umbra_stencil_free(stencil, 1));
    CHECK(umbra_stencil_free(stencil, 1) == -UMBRA_EUNUSED);
    told.size = sizeof told;
    must(umbra_stencil_statistics(stencil, &told));
    CHECK(told.loads == 2);

    doing = "groups that wait";
    must(umbra_stencil_alloc_members(stencil, 2, sum, 3, 60000, &group));
    must(umbra_stencil_submit_members(stencil, 3, sum, 1, NULL));
    CHECK(umbra_stencil_submit_members(stencil, 4, sum, 1, &other) == -UMBRA_EFULL && other == 77);
    CHECK(umbra_stencil_alloc_members(stencil, 4, sum, 1, 10, &other) == -UMBRA_ETIMEOUT && other == 0);

    doing = "references after an interrupt";
    must(umbra_stencil_interrupt(stencil));
    CHECK(umbra_stencil_hand_over(stencil, group, slots, 3, &count) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_stencil_free(stencil, 1) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_stencil_submit_members(stencil, 5, sum, 3, NULL) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_stencil_alloc_members(stencil, 5, sum, 3, 60000, NULL) == -UMBRA_EINTERRUPTED);
    must(umbra_stencil_destroy(stencil));
    CHECK(umbra_stencil_free(stencil, 1) == -UMBRA_ESTALE);
}

/* A usage map that counts too much tells of what. */
static void too_many_uses(void)
{
    const uint64_t counted[5] = {1, 2, 2, 5, 1}, named[3] = {1, 2, 1};
    struct umbra_stencil_options options = plain();
    struct umbra_stencil_uses left[2];
    uint64_t group, last;
    unsigned loads = 0;
    umbra_stencil stencil;
    size_t count;

    doing = "uses that are left";
    options.counted = 1;
    must(umbra_stencil_create(&options, &stencil));
    must(umbra_stencil_unclaimed(stencil, NULL, 0, &count));
    CHECK(count == 0);
    must(umbra_stencil_count(stencil, counted, 5));
    must(umbra_stencil_submit(stencil, 0, named, 3, &group));
    CHECK(umbra_stencil_submit(stencil, 1, named, 3, NULL) == -UMBRA_EUSAGE);
    CHECK(umbra_stencil_unclaimed(stencil, left, 1, &count) == -UMBRA_ESIZE && count == 2);
    CHECK(umbra_stencil_unclaimed(stencil, NULL, 2, &count) == -UMBRA_EINVAL);
    CHECK(umbra_stencil_unclaimed(stencil, left, 2, NULL) == -UMBRA_EINVAL);
    must(umbra_stencil_unclaimed(stencil, left, 2, &count));
    CHECK(count == 2 && left[0].data == 2 && left[0].uses == 1 && left[1].data == 5 && left[1].uses == 1);

    doing = "the last of several references";
    CHECK(ready(stencil, &last, &loads) == group && loads == 2);
    {
        uint32_t slots[3];
        must(umbra_stencil_hand_over(stencil, group, slots, 3, &count));
        CHECK(count == 3 && slots[0] == slots[2]);
    }
    must(umbra_stencil_free(stencil, 1));
    must(umbra_stencil_free(stencil, 1));
    CHECK(umbra_stencil_free(stencil, 1) == -UMBRA_ENOSLOT);
    must(umbra_stencil_interrupt(stencil));
    must(umbra_stencil_unclaimed(stencil, left, 2, &count));
    CHECK(count == 2);
    must(umbra_stencil_destroy(stencil));
}

static void any_ids(void)
{
    const uint64_t ids[3] = {(uint64_t)1 << 40, UINT64_MAX, 5}, twice[3] = {8, 9, 8};
    const uint64_t of_three[2] = {UINT64_MAX, 5}, unknown = 0;
    const size_t one = 1;
    struct umbra_stencil_groups groups;
    struct umbra_stencil_options options = plain();
    struct umbra_stencil_uses left[3];
    uint64_t group, last = 0;
    unsigned loads = 0;
    umbra_stencil stencil;
    size_t count;

    doing = "any ids";
    options.inputs = 3;
    options.counted = 1;
    options.ids = twice;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    options.ids = (const uint64_t *)(const void *)((const char *)ids + 1);
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    options.ids = ids;
    memset(&groups, 0, sizeof groups);
    groups.size = sizeof groups;
    groups.inputs = &unknown;
    groups.lengths = &one;
    groups.count = 1;
    options.known = &groups;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    options.known = NULL;
    must(umbra_stencil_create(&options, &stencil));
    CHECK(umbra_stencil_count(stencil, &unknown, 1) == -UMBRA_EUSAGE);
    must(umbra_stencil_count(stencil, ids, 3));
    CHECK(umbra_stencil_submit(stencil, 0, &unknown, 1, NULL) == -UMBRA_EUSAGE);
    must(umbra_stencil_submit(stencil, 0, of_three, 2, &group));
    CHECK(ready(stencil, &last, &loads) == group && loads == 2 && last == 5);
    must(umbra_stencil_unclaimed(stencil, left, 3, &count));
    CHECK(count == 1 && left[0].data == ids[0] && left[0].uses == 1);
    must(umbra_stencil_destroy(stencil));

    doing = "options of before there were ids";
    options.ids = twice;
    options.size = offsetof(struct umbra_stencil_options, ids);
    must(umbra_stencil_create(&options, &stencil));
    must(umbra_stencil_count(stencil, &unknown, 1));
    must(umbra_stencil_destroy(stencil));
    options.size--;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_ESTRUCT);
}

#define WIDTH 24
#define POINTS (WIDTH * WIDTH)

/* The box of radius 1 around a point of a plane. */
static size_t box(uint64_t point, uint64_t *inputs)
{
    int x = (int)(point % WIDTH), y = (int)(point / WIDTH), dx, dy;
    size_t count = 0;
    for (dy = -1; dy <= 1; dy++)
        for (dx = -1; dx <= 1; dx++)
            if (x + dx >= 0 && x + dx < WIDTH && y + dy >= 0 && y + dy < WIDTH)
                inputs[count++] = (uint64_t)((y + dy) * WIDTH + x + dx);
    return count;
}

/* How often inputs are loaded for all points, row by row. */
static unsigned loads_of(const struct umbra_stencil_options *options)
{
    uint64_t point, group, last, inputs[9];
    umbra_stencil stencil;
    unsigned loads = 0;
    must(umbra_stencil_create(options, &stencil));
    for (point = 0; point < POINTS; point++) {
        must(umbra_stencil_submit(stencil, point, inputs, box(point, inputs), &group));
        CHECK(ready(stencil, &last, &loads) == group);
        must(umbra_stencil_free_group(stencil, group));
    }
    must(umbra_stencil_destroy(stencil));
    return loads;
}

static void futures(void)
{
    static uint64_t inputs[9 * POINTS];
    static size_t lengths[POINTS];
    struct umbra_stencil_options options = plain();
    struct umbra_stencil_grid grid;
    struct umbra_stencil_groups groups;
    unsigned by_nothing, by_grid, by_list;
    umbra_stencil stencil;
    size_t at, next = 0;

    doing = "futures";
    options.slots = 40;
    options.inputs = POINTS;
    options.groups = 1;
    options.active = 1;
    options.largest_group = 9;
    options.horizon = 2 * WIDTH;
    by_nothing = loads_of(&options);

    memset(&grid, 0, sizeof grid);
    grid.size = sizeof grid;
    grid.extents[0] = 1;
    grid.extents[1] = grid.extents[2] = WIDTH;
    grid.radius = 1;
    options.grid = &grid;
    by_grid = loads_of(&options);

    memset(&groups, 0, sizeof groups);
    groups.size = sizeof groups;
    groups.inputs = inputs;
    groups.lengths = lengths;
    groups.count = POINTS;
    for (at = 0; at < POINTS; at++)
        next += lengths[at] = box(at, inputs + next);
    options.known = &groups;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    options.grid = NULL;
    by_list = loads_of(&options);
    /* Who knows nothing loads nearly all rows three times. */
    CHECK(by_grid == by_list && by_grid >= POINTS && by_nothing > by_list + POINTS / 2);

    doing = "futures that are none";
    inputs[3] = POINTS;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EUSAGE);
    lengths[0] = SIZE_MAX;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    groups.lengths = NULL;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    groups.size = 8;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_ESTRUCT);
    options.known = NULL;
    options.grid = &grid;
    grid.shape = 2;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    grid.shape = UMBRA_SHAPE_STAR;
    must(umbra_stencil_create(&options, &stencil));
    must(umbra_stencil_destroy(stencil));
    grid.extents[0] = 0;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    grid.extents[0] = 2;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_EINVAL);
    grid.size = 8;
    CHECK(umbra_stencil_create(&options, &stencil) == -UMBRA_ESTRUCT);
}

int main(void)
{
    outputs();
    too_many_uses();
    any_ids();
    futures();
    printf("all is right\n");
    return 0;
}
