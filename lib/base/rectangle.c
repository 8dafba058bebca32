#include "lockstep/base/rectangle.h"

bool ls_rectangle_equal(ls_rectangle a, ls_rectangle b)
{
    return a.top == b.top && a.left == b.left && a.height == b.height && a.width == b.width;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

ls_rectangle ls_rectangle_common(ls_rectangle a, ls_rectangle b)
{
    size_t top = larger(a.top, b.top), bottom = smaller(a.top + a.height, b.top + b.height);
    size_t left = larger(a.left, b.left), right = smaller(a.left + a.width, b.left + b.width);
    if (top >= bottom || left >= right) return (ls_rectangle){0, 0, 0, 0};
    return (ls_rectangle){top, left, bottom - top, right - left};
}

ls_rectangle ls_rectangle_of_granules(ls_rectangle granules, size_t rows, size_t columns,
                                      size_t height, size_t width)
{
    size_t top = granules.top * height / rows, left = granules.left * width / columns;
    return (ls_rectangle){top, left, (granules.top + granules.height) * height / rows - top,
                          (granules.left + granules.width) * width / columns - left};
}
