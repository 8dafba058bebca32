/* image_drawing.c - digits and shapes, drawn.
 *
 * A figure is a function that gives the distance of a point to its edge, negative inside. A pixel
 * is covered by as much as its centre lies inside, up to one pixel from edge to edge: that makes
 * smooth edges without looking at more than one point. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_mode.h"
#include "lockstep/base/show.h"
#include "lockstep/model/images.h"
#include "lockstep/numerics/random.h"
#include "base/allocate.h"

/* ---- figures, in a box from -1 to 1 both ways, y downwards ---- */

typedef struct point {
    double x, y;
} point;

/* The corners of the one stroke of a digit. */
enum { MOST_CORNERS = 20 };
typedef struct strokes {
    int count;
    point corner[MOST_CORNERS];
} strokes;

/* clang-format off */
static const strokes digits[10] = {
    {13, {{0, -.9}, {.35, -.78}, {.55, -.45}, {.6, 0}, {.55, .45}, {.35, .78}, {0, .9}, {-.35, .78},
          {-.55, .45}, {-.6, 0}, {-.55, -.45}, {-.35, -.78}, {0, -.9}}},
    {3, {{-.35, -.55}, {.1, -.9}, {.1, .9}}},
    {9, {{-.5, -.5}, {-.38, -.78}, {0, -.9}, {.38, -.78}, {.5, -.45}, {.38, -.1}, {-.1, .4},
         {-.55, .9}, {.6, .9}}},
    {12, {{-.5, -.72}, {-.2, -.88}, {.2, -.86}, {.45, -.65}, {.42, -.3}, {.05, -.08}, {.45, .1},
          {.55, .45}, {.4, .75}, {.05, .9}, {-.3, .87}, {-.55, .68}}},
    {4, {{.3, .9}, {.3, -.9}, {-.6, .35}, {.6, .35}}},
    {11, {{.5, -.9}, {-.4, -.9}, {-.48, -.12}, {-.1, -.28}, {.25, -.22}, {.5, .05}, {.54, .4},
          {.35, .75}, {0, .9}, {-.3, .87}, {-.55, .7}}},
    {15, {{.4, -.85}, {.05, -.72}, {-.3, -.35}, {-.5, .1}, {-.5, .45}, {-.32, .78}, {0, .9},
          {.32, .78}, {.5, .45}, {.45, .15}, {.25, -.08}, {0, -.14}, {-.25, -.06}, {-.44, .15},
          {-.5, .4}}},
    {4, {{-.55, -.9}, {.55, -.9}, {.05, .1}, {-.2, .9}}},
    {17, {{0, -.06}, {-.32, -.22}, {-.42, -.5}, {-.3, -.78}, {0, -.9}, {.3, -.78}, {.42, -.5},
          {.32, -.22}, {0, -.06}, {.4, .14}, {.52, .46}, {.36, .8}, {0, .9}, {-.36, .8},
          {-.52, .46}, {-.4, .14}, {0, -.06}}},
    {15, {{-.4, .85}, {-.05, .72}, {.3, .35}, {.5, -.1}, {.5, -.45}, {.32, -.78}, {0, -.9},
          {-.32, -.78}, {-.5, -.45}, {-.45, -.15}, {-.25, .08}, {0, .14}, {.25, .06}, {.44, -.15},
          {.5, -.4}}},
};
/* clang-format on */

static const char *const class_names[LS_DRAWN_CLASSES] = {
    "0", "1", "2",    "3",    "4",      "5",       "6",        "7",
    "8", "9", "disk", "ring", "square", "diamond", "triangle", "cross"};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

static double to_segment(point p, point a, point b)
{
    const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
    t = smaller(larger(t, 0), 1);
    const double x = p.x - (a.x + t * dx), y = p.y - (a.y + t * dy);
    return sqrt(x * x + y * y);
}

static double to_digit(const strokes *s, point p, double pen)
{
    double nearest = 4;
    for (int i = 0; i + 1 < s->count; i++)
        nearest = smaller(nearest, to_segment(p, s->corner[i], s->corner[i + 1]));
    return nearest - pen;
}

static double to_box(point p, double half_width, double half_height)
{
    return larger(magnitude(p.x) - half_width, magnitude(p.y) - half_height);
}

/* pen: half the width of a line. */
static double to_figure(size_t figure, point p, double pen)
{
    const double radius = 0.85;
    switch (figure) {
    case 10:
        return sqrt(p.x * p.x + p.y * p.y) - radius;
    case 11:
        return magnitude(sqrt(p.x * p.x + p.y * p.y) - (radius - pen)) - pen;
    case 12:
        return to_box(p, 0.75, 0.75);
    case 13: /* the factor: 1 / sqrt(2) */
        return (magnitude(p.x) + magnitude(p.y) - 1) * 0.70710678118654752;
    case 14: /* its sides fall by 2 in 1; the factor: 1 / sqrt(5) */
        return larger((2 * magnitude(p.x) - p.y - 0.85) * 0.44721359549995794, p.y - 0.85);
    case 15:
        return smaller(to_box(p, 0.9, 1.6 * pen), to_box(p, 1.6 * pen, 0.9));
    default:
        return to_digit(&digits[figure], p, pen);
    }
}

/* ---- one image ---- */

/* What varies. */
typedef struct scene {
    double x, y;         /* middle of the figure, in pixels */
    double size, aspect; /* half its height; its width over its height */
    double slant, pen;
    double noise; /* standard deviation, in levels */
    double ink[3], paper[3];
} scene;

/* Element `number` of the image's stream, between two bounds. */
static double between(ls_stream stream, uint64_t number, double low, double high)
{
    return low + (high - low) * ls_random_uniform(stream, number);
}

static scene compose(ls_stream stream, size_t height, size_t width)
{
    scene s;
    const double side = (double)(height < width ? height : width);
    s.size = side * between(stream, 0, 0.30, 0.44);
    s.aspect = between(stream, 1, 0.80, 1.10);
    /* All of the figure stays in the image, but for what slant and pen add. */
    const double free_x = (double)width / 2 - s.size, free_y = (double)height / 2 - s.size;
    s.x = (double)width / 2 + free_x * between(stream, 2, -1, 1);
    s.y = (double)height / 2 + free_y * between(stream, 3, -1, 1);
    s.slant = between(stream, 4, -0.25, 0.25);
    s.pen = between(stream, 5, 0.10, 0.18);
    s.noise = between(stream, 6, 2, 12);
    const bool dark = ls_random_uniform(stream, 7) < 0.25; /* dark ink on bright paper */
    for (uint64_t c = 0; c < 3; c++) {
        const double bright = between(stream, 8 + c, 150, 250);
        const double dim = between(stream, 11 + c, 5, 80);
        s.ink[c] = dark ? dim : bright;
        s.paper[c] = dark ? bright : dim;
    }
    return s;
}

/* How much of the pixel is ink, 0 to 1. */
static double covered(const scene *s, size_t figure, size_t row, size_t column)
{
    point p;
    p.y = ((double)row + 0.5 - s->y) / s->size;
    p.x = ((double)column + 0.5 - s->x) / (s->size * s->aspect) + s->slant * p.y;
    /* From units of the figure to pixels. */
    const double inside = 0.5 - to_figure(figure, p, s->pen) * s->size;
    return smaller(larger(inside, 0), 1);
}

static void draw(unsigned char *pixels, const ls_images *images, uint64_t seed, size_t number)
{
    const ls_stream stream = {seed, LS_RANDOM_DATA, 1, (uint32_t)number};
    const ls_stream noise = {seed, LS_RANDOM_DATA, 2, (uint32_t)number};
    const size_t H = images->height, W = images->width;
    const scene s = compose(stream, H, W);
    for (size_t h = 0; h < H; h++)
        for (size_t w = 0; w < W; w++) {
            const double ink = covered(&s, number % images->classes, h, w);
            for (size_t c = 0; c < images->channels; c++) {
                const size_t e = (c * H + h) * W + w;
                const double level = s.paper[c] + (s.ink[c] - s.paper[c]) * ink +
                                     s.noise * ls_random_normal(noise, e);
                pixels[e] = (unsigned char)(smaller(larger(level, 0), 255) + 0.5);
            }
        }
}

/* ---- the set ---- */

static ls_status check(const char *label, size_t count, size_t channels, size_t height,
                       size_t width, size_t classes)
{
    ls_status status = LS_OK;
    const size_t most = (size_t)1 << 14;
    if (classes < 1 || classes > LS_DRAWN_CLASSES)
        LS_FAIL(LS_ERR_INPUT, "%s: %zu classes; there are figures for 1 to %d", ls_show(label),
                classes, (int)LS_DRAWN_CLASSES);
    if (channels != 1 && channels != 3)
        LS_FAIL(LS_ERR_INPUT, "%s: images of %zu channels; figures are drawn in 1 or 3",
                ls_show(label), channels);
    if (height < 8 || width < 8 || height > most || width > most)
        LS_FAIL(LS_ERR_INPUT, "%s: images of %zu x %zu; figures are drawn on 8 x 8 to %zu x %zu",
                ls_show(label), height, width, most, most);
    /* The number of an image is the step of its stream. */
    if (count < 1 || count > ((size_t)1 << 24))
        LS_FAIL(LS_ERR_INPUT, "%s: %zu images; 1 to %zu can be drawn", ls_show(label), count,
                (size_t)1 << 24);
exit:
    return status;
}

ls_status ls_images_draw(const char *label, uint64_t seed, size_t count, size_t channels,
                         size_t height, size_t width, size_t classes, ls_images *ret_images)
{
    ls_status status = LS_OK;
    ls_thread_mode mode;
    ls_images images = {0};
    ls_thread_mode_set(&mode);
    LS_TRY(check(label, count, channels, height, width, classes));
    images = (ls_images){
        .count = count, .channels = channels, .height = height, .width = width, .classes = classes};
    const size_t n = channels * height * width; /* below 2^30, of 2^24 images */
    LS_ROOM(images.pixels, count * n);
    LS_ROOM(images.labels, count);
    LS_NEW(images.class_names, classes);
    for (size_t c = 0; c < classes; c++) LS_COPY(images.class_names[c], class_names[c]);
    for (size_t i = 0; i < count; i++) {
        images.labels[i] = (int32_t)(i % classes);
        draw(images.pixels + i * n, &images, seed, i);
    }
    *ret_images = images;
    memset(&images, 0, sizeof images);
exit:
    ls_images_free(&images);
    ls_thread_mode_restore(&mode);
    return status;
}
