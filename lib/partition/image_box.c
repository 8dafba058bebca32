#include "lockstep/partition/image_box.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/allocate.h"

bool ls_image_box_is_empty(const ls_image_box *box)
{
    return box->images.count == 0 || box->channels.count == 0 || ls_rectangle_is_empty(box->area);
}

size_t ls_image_box_count(const ls_image_box *box)
{
    return ls_size_product(box->images.count, box->channels.count, box->area.height,
                           box->area.width);
}

bool ls_image_box_equal(const ls_image_box *a, const ls_image_box *b)
{
    return a->images.first == b->images.first && a->images.count == b->images.count &&
           a->channels.first == b->channels.first && a->channels.count == b->channels.count &&
           ls_rectangle_equal(a->area, b->area);
}

static ls_share common(ls_share a, ls_share b)
{
    size_t first = a.first > b.first ? a.first : b.first;
    size_t a_end = a.first + a.count, b_end = b.first + b.count;
    size_t end = a_end < b_end ? a_end : b_end;
    return (ls_share){first, end > first ? end - first : 0};
}

ls_image_box ls_image_box_common(const ls_image_box *a, const ls_image_box *b)
{
    ls_image_box box = {common(a->images, b->images), common(a->channels, b->channels),
                        ls_rectangle_common(a->area, b->area)};
    return ls_image_box_is_empty(&box) ? (ls_image_box){{0, 0}, {0, 0}, {0, 0, 0, 0}} : box;
}

size_t ls_image_box_place(const ls_image_box *block, const ls_image_box *piece, size_t counts[4],
                          size_t strides[4])
{
    counts[0] = piece->images.count;
    counts[1] = piece->channels.count;
    counts[2] = piece->area.height;
    counts[3] = piece->area.width;
    strides[3] = 1;
    strides[2] = block->area.width;
    strides[1] = block->area.height * strides[2];
    strides[0] = block->channels.count * strides[1];
    return (piece->images.first - block->images.first) * strides[0] +
           (piece->channels.first - block->channels.first) * strides[1] +
           (piece->area.top - block->area.top) * strides[2] + piece->area.left - block->area.left;
}

void ls_image_box_take(ls_dtype dtype, void *own, const ls_image_box *piece, const void *whole,
                       const ls_image_box *block)
{
    if (ls_image_box_is_empty(piece)) return;
    size_t n[4], strides[4];
    const size_t bytes = ls_dtype_bytes(dtype);
    const char *from = (const char *)whole + bytes * ls_image_box_place(block, piece, n, strides);
    char *to = own;
    for (size_t i = 0; i < n[0]; i++)
        for (size_t c = 0; c < n[1]; c++)
            for (size_t row = 0; row < n[2]; row++, to += n[3] * bytes)
                memcpy(to, from + (i * strides[0] + c * strides[1] + row * strides[2]) * bytes,
                       n[3] * bytes);
}

/* ---- what passes */

/* Whether a box's elements can be counted, and its ends. */
static ls_status check_countable(const char *what, const ls_image_box *boxes, size_t members)
{
    ls_status status = LS_OK;
    for (size_t m = 0; m < members; m++) {
        const ls_image_box *b = &boxes[m];
        const size_t ends[] = {ls_size_plus(b->images.first, b->images.count),
                               ls_size_plus(b->channels.first, b->channels.count),
                               ls_size_plus(b->area.top, b->area.height),
                               ls_size_plus(b->area.left, b->area.width)};
        size_t most = ls_image_box_count(b);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
            if (ends[i] > most) most = ends[i];
        if (most > LS_SIZE_MOST)
            LS_FAIL(LS_ERR_INPUT,
                    "member %zu %s %zu images of %zu channels of %zu x %zu pixels: more than can "
                    "be addressed",
                    m, what, b->images.count, b->channels.count, b->area.height, b->area.width);
    }
exit:
    return status;
}

static ls_status check_apart(const ls_image_box *owned, size_t members)
{
    ls_status status = LS_OK;
    for (size_t a = 0; a < members; a++)
        for (size_t b = a + 1; b < members; b++) {
            ls_image_box both = ls_image_box_common(&owned[a], &owned[b]);
            if (!ls_image_box_is_empty(&both))
                LS_FAIL(LS_ERR_INPUT,
                        "members %zu and %zu both own image %zu, channel %zu, row %zu, column %zu",
                        a, b, both.images.first, both.channels.first, both.area.top,
                        both.area.left);
        }
exit:
    return status;
}

ls_status ls_transfers_create(ls_transfer **ret_transfers, size_t *ret_count,
                              const ls_image_box *owned, const ls_image_box *wanted, size_t members)
{
    ls_status status = LS_OK;
    ls_transfer *list = NULL;
    size_t n = 0;
    LS_TRY(check_countable("owns", owned, members));
    LS_TRY(check_countable("wants", wanted, members));
    LS_TRY(check_apart(owned, members));
    for (size_t to = 0; to < members; to++) {
        size_t found = 0;
        for (size_t from = 0; from < members; from++) {
            ls_image_box both = ls_image_box_common(&owned[from], &wanted[to]);
            found += ls_image_box_count(&both);
            n += !ls_image_box_is_empty(&both);
        }
        size_t count = ls_image_box_count(&wanted[to]);
        if (found != count)
            LS_FAIL(LS_ERR_INPUT, "member %zu wants %zu elements of which %zu are owned by nobody",
                    to, count, count - found);
    }
    LS_ROOM(list, n + 1);
    n = 0;
    for (size_t from = 0; from < members; from++)
        for (size_t to = 0; to < members; to++) {
            ls_image_box both = ls_image_box_common(&owned[from], &wanted[to]);
            if (!ls_image_box_is_empty(&both)) list[n++] = (ls_transfer){from, to, both};
        }
    *ret_transfers = list;
    *ret_count = n;
exit:
    return status;
}

size_t ls_transfers_sent(const ls_transfer *transfers, size_t count, size_t member)
{
    size_t elements = 0;
    for (size_t i = 0; i < count; i++)
        if (transfers[i].from == member && transfers[i].to != member)
            elements += ls_image_box_count(&transfers[i].box);
    return elements;
}

size_t ls_transfers_received(const ls_transfer *transfers, size_t count, size_t member)
{
    size_t elements = 0;
    for (size_t i = 0; i < count; i++)
        if (transfers[i].to == member && transfers[i].from != member)
            elements += ls_image_box_count(&transfers[i].box);
    return elements;
}
