/* Phase 6, reference: on a CPU, `sample`.
 *
 * In torch each line of the sampler is a pass over all logits of the step, through memory. Here a row stays in the
 * processor's cache from its first pass to its token. With a cut nothing is sorted: the likeliest remaining token is
 * taken until there are enough, for example 50 of 151,936.
 */
#include <math.h>
#include <stdlib.h>

#include "lanes.h"
#include "numbers.h"

#define DOUBLES (LANES / 2)
#define TAKEN (-1e300) /* in place of a logit: not minus infinity, which -ffast-math does not support */

typedef double doubles __attribute__((vector_size(8 * DOUBLES), aligned(8), may_alias));
typedef int64_t longs __attribute__((vector_size(8 * DOUBLES), aligned(8), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * DOUBLES)));

typedef struct {
    double temperature, top_k, top_p, draw;
} Settings;

/* A thread's memory for a row of `width` logits, in tiles of `tile` logits. */
typedef struct {
    int64_t width, tile, num_tiles;
    double *logits;   /* [num_tiles * tile]; those taken, forbidden or after the last are TAKEN */
    double *largest;  /* [num_tiles]: the largest logit of each tile */
    double *shares;   /* [num_tiles * tile]: of the kept tokens, relative to the likeliest one's probability */
    int64_t *kept;    /* [width]: the tokens that a cut keeps, the likeliest first */
} Row;

/* e to the power of numbers x <= 0, and 0 below -700. The error is about |x| units in the last place. */
INLINE doubles exponential_in_float64(doubles power) {
    longs is_seen = power > -700;
    doubles twos = (doubles)((longs)power & is_seen) * 1.4426950408889634; /* exp(power) is exp2(twos) */
    ints whole = __builtin_convertvector(twos + 1023, ints); /* the floor, because it is positive */
    doubles rest = (twos - __builtin_convertvector(whole - 1023, doubles) - 0.5) * 0.6931471805599453;
    doubles sum = (doubles){0} + 1; /* the series of exp(rest); rest is within 0.35 of 0 */
#pragma GCC unroll 13
    for (int n = 13; n > 0; n--) sum = sum * (rest * (1.0 / n)) + 1;
    sum *= 1.4142135623730951 * (doubles)(__builtin_convertvector(whole, longs) << 52);
    return (doubles)((longs)sum & is_seen);
}

static double share_of(double logit, double largest, double temperature) {
    return exponential_in_float64((doubles){0} + (logit - largest) / temperature)[0];
}

static double largest_in(const double *logits, int64_t count) {
    doubles largest = *(const doubles *)logits;
    for (int64_t i = DOUBLES; i < count; i += DOUBLES) {
        doubles next = *(const doubles *)(logits + i);
        longs is_larger = next > largest;
        largest = (doubles)(((longs)next & is_larger) | ((longs)largest & ~is_larger));
    }
    double found = largest[0];
    for (int i = 1; i < DOUBLES; i++) found = found < largest[i] ? largest[i] : found;
    return found;
}

static void load(Row *row, const number *logits) {
    for (int64_t i = 0; i < row->width; i++) {
        double logit = to_float(logits[i]);
        row->logits[i] = logit > TAKEN ? logit : TAKEN;
    }
    for (int64_t i = row->width; i < row->num_tiles * row->tile; i++) row->logits[i] = TAKEN;
    for (int64_t i = 0; i < row->num_tiles; i++) row->largest[i] = largest_in(row->logits + i * row->tile, row->tile);
}

/* Return the likeliest remaining token, in a tie the first. */
static int64_t likeliest(const Row *row) {
    int64_t tile = 0;
    for (int64_t i = 1; i < row->num_tiles; i++) tile = row->largest[i] > row->largest[tile] ? i : tile;
    int64_t token = tile * row->tile, last = token + row->tile - 1;
    while (token < last && row->logits[token] != row->largest[tile]) token++;
    return token;
}

static void take(Row *row, int64_t token) {
    int64_t tile = token / row->tile;
    row->logits[token] = TAKEN;
    row->largest[tile] = largest_in(row->logits + tile * row->tile, row->tile);
}

/* Fill in the shares of all tokens; return their sum. */
static double share_all(Row *row, double largest, double temperature) {
    doubles total = {0};
    for (int64_t i = 0; i < row->num_tiles * row->tile; i += DOUBLES) {
        doubles power = (*(const doubles *)(row->logits + i) - largest) / temperature;
        total += *(doubles *)(row->shares + i) = exponential_in_float64(power);
    }
    double sum = 0;
    for (int i = 0; i < DOUBLES; i++) sum += total[i];
    return sum;
}

/* Fill in the tokens that the cuts keep, and their shares; return their number. */
static int64_t cut(Row *row, double largest, Settings settings) {
    int64_t count = 0, limit = settings.top_k > 0 && settings.top_k < row->width ? settings.top_k : row->width;
    double taken = 0, total = limit < row->width ? 0 : share_all(row, largest, settings.temperature);
    int needs_all = limit < row->width || settings.top_p >= 1; /* `top_p` cuts what `top_k` has kept */
    do { /* at least one is kept, even if the bound is rounded to 0 */
        int64_t token = likeliest(row);
        taken += row->shares[count] = share_of(row->logits[token], largest, settings.temperature);
        row->kept[count++] = token;
        take(row, token);
    } while (count < limit && (needs_all || taken < settings.top_p * total));
    if (limit == row->width || settings.top_p >= 1) return count;
    double reached = row->shares[0];
    int64_t num_kept = 1;
    while (num_kept < count && reached < settings.top_p * taken) reached += row->shares[num_kept++];
    return num_kept;
}

/* Return the place at which the shares add up to more than `draw` of their sum. */
static int64_t walk(const double *shares, int64_t count, double total, double draw) {
    double reached = 0;
    int64_t last = 0;
    for (int64_t place = 0; place < count; place++) {
        reached += shares[place];
        if (reached > draw * total) return place;
        if (shares[place] > 0) last = place;
    }
    return last; /* added up in a different order, the sum may be a little smaller */
}

static int64_t sample_row(Row *row, const number *logits, Settings settings) {
    load(row, logits);
    int64_t first = likeliest(row);
    if (settings.temperature <= 0) return first;
    double largest = row->logits[first], total = 0;
    if (settings.top_k <= 0 && settings.top_p >= 1) {
        total = share_all(row, largest, settings.temperature);
        return walk(row->shares, row->width, total, settings.draw);
    }
    int64_t count = cut(row, largest, settings);
    for (int64_t place = 0; place < count; place++) total += row->shares[place];
    return row->kept[walk(row->shares, count, total, settings.draw)];
}

/* Write the tokens of rows of logits [num_rows][width]. Returns 0, or 1 if memory runs out. */
int64_t sample(int64_t num_rows, int64_t num_threads, int64_t width, const number *logits, const Settings *settings,
               int64_t *tokens) {
    int64_t tile = 64, failed = 0;
    while (tile * tile < width) tile *= 2; /* about as many tiles as there are logits in a tile */
    int64_t num_tiles = (width + tile - 1) / tile, size = num_tiles * tile;
#pragma omp parallel num_threads((int)num_threads) reduction(| : failed)
    {
        double *room = malloc((2 * size + num_tiles) * sizeof(double) + width * sizeof(int64_t));
        failed = room == NULL;
        double *shares = room + size, *largest = shares + size;
        Row row = {width, tile, num_tiles, room, largest, shares, (int64_t *)(largest + num_tiles)};
/* Rows with cuts take longer, so a thread takes the next one when it is done. */
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < num_rows; i++)
            if (room) tokens[i] = sample_row(&row, logits + i * width, settings[i]);
        free(room);
    }
    return failed;
}
