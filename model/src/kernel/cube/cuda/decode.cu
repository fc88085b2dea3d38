// One token of each of ROWS sequences through all layers of a Qwen3 decoder, in one launch.
//
// One block per multiprocessor works on the layers; all blocks synchronise wherever one needs the
// results of others. Every weight is read once, by one block. Each warp has a ring of tiles in
// shared memory and prefetches its next weights across synchronisations and layers, so memory is
// never idle while blocks wait for each other.
//
// The header defines HIDDEN, INNER, HEADS, KV_HEADS, ROWS, LAYERS, SPLITS (maximum number of blocks
// that share the keys of a key head), SLOTS (tiles per ring), SUMS (maximum number of partial sums
// per phase) and BLOCKS.
//
// x stays in f32 from the first layer to the last; inputs of products are bf16, sums are f32.

struct DecodeArgs {
  int first_row, capacity;  // of the cache
  int splits;               // blocks that share the keys of a key head, at most SPLITS
  float epsilon;
  int position[ROWS];
};

constexpr int THREADS = 512, WARPS = THREADS / 32, D = 128;
constexpr int GROUP = HEADS / KV_HEADS, Q = HEADS * D, KV = KV_HEADS * D, QKV = Q + 2 * KV;
constexpr int ITEMS = ROWS * KV_HEADS;
constexpr int WIDEST = (Q > INNER ? Q : INNER) > HIDDEN ? (Q > INNER ? Q : INNER) : HIDDEN;
constexpr int TENSORS = 13;
enum Tensor { NORM1, WQ, WK, WV, WO, Q_NORM, K_NORM, NORM2, GATE, UP, DOWN, KEYS, VALUES };

// A step is 16 terms. A tile is at most STEPS steps of 8 rows of weights, with a gap after each
// row, so that rows that are read together are in different banks.
constexpr int STEPS = 10, PITCH = STEPS * 32 + 16, TILE = 8 * PITCH;
// Padding between rows of the other operand, for the same reason.
constexpr int GAP = 8;

// The part of a phase that a block computes: `rows` rows of weights from row `from` on, in groups
// of 8. Warps share the groups, and `slices` warps share the terms of one group.
struct Share { int from, rows, slices, steps; };

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
  return v;
}

__device__ __forceinline__ void widen(uint4 a, float (&f)[8]) {
  f[0] = low(a.x); f[1] = high(a.x); f[2] = low(a.y); f[3] = high(a.y);
  f[4] = low(a.z); f[5] = high(a.z); f[6] = low(a.w); f[7] = high(a.w);
}

// Barrier number `meeting` across all blocks: each block has a flag that all others read. A block
// that waits for seconds aborts the kernel, because an error is better than a GPU that hangs.
// ANCHOR: meet
__device__ __forceinline__ void meet(u32* flags, u32 meeting) {
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flags + blockIdx.x), "r"(meeting) : "memory");
  if (threadIdx.x < BLOCKS) {
    u32 seen, tries = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flags + threadIdx.x) : "memory");
      if (++tries > (1u << 24)) __trap();
    } while (seen < meeting);
  }
  __syncthreads();
}
// ANCHOR_END: meet

// Copies 16 bytes to shared memory, bypassing the L1 cache. The copies of a thread since its last
// commit are a group; groups complete in order.
__device__ __forceinline__ void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void prefetch(const void* from, int bytes) {
  for (int at = threadIdx.x * 128; at < bytes; at += THREADS * 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"((const char*)from + at));
}

__device__ __forceinline__ int groups_of(int phase, int rows) { return (rows + 7) / 8 * (phase == 2 ? 2 : 1); }

// Returns the weights of row `i` of a group. In the gate/up phase the second half of the groups are
// the ups.
__device__ __forceinline__ const bf16* row_of(const u64* table, int phase, const Share& share, int group, int i) {
  if (phase == 2) {
    const int half = (share.rows + 7) / 8, is_up = group >= half;
    const long long row = share.from + (is_up ? group - half : group) * 8 + i;
    return (const bf16*)table[is_up ? UP : GATE] + row * HIDDEN;
  }
  const long long row = share.from + group * 8 + i;
  if (phase == 0) {
    if (row < Q) return (const bf16*)table[WQ] + row * HIDDEN;
    if (row < Q + KV) return (const bf16*)table[WK] + (row - Q) * HIDDEN;
    return (const bf16*)table[WV] + (row - Q - KV) * HIDDEN;
  }
  return phase == 1 ? (const bf16*)table[WO] + row * Q : (const bf16*)table[DOWN] + row * INNER;
}

// Returns the number of existing rows of a group.
__device__ __forceinline__ int rows_of(int phase, const Share& share, int group) {
  const int half = (share.rows + 7) / 8, at = (phase == 2 && group >= half ? group - half : group) * 8;
  return share.rows - at < 8 ? share.rows - at : 8;
}

// Returns the steps per tile, when `steps` steps are divided evenly.
__device__ __forceinline__ int chunk_of(int steps) {
  const int tiles = (steps + STEPS - 1) / STEPS;
  return (steps + tiles - 1) / tiles;
}

// A warp's ring of tiles, and the next tile to load.
struct Ring {
  u32 tiles;  // an address in shared memory
  const u64* table;
  const Share* shares;
  int layer, phase, group, at, until, chunk;  // of the next tile
  u32 brought, used;

  // Advances to an existing group, in a later phase or layer if needed.
  __device__ __forceinline__ void enter() {
    const int warp = threadIdx.x / 32;
    while (layer < LAYERS) {
      const Share& share = shares[phase];
      const int slice = warp % share.slices;
      if (group < 0) group = warp / share.slices;
      if (group < groups_of(phase, share.rows)) {
        at = share.steps * slice / share.slices;
        until = share.steps * (slice + 1) / share.slices;
        chunk = chunk_of(until - at);
        if (at < until) return;
      }
      group = -1;
      if (++phase == 4) { phase = 0; layer++; }
    }
  }

  // A group is committed even if there is nothing left to load, because groups are counted.
  __device__ __forceinline__ void bring() {
    if (layer < LAYERS) {
      const Share share = shares[phase];
      const int lane = threadIdx.x % 32, rows = rows_of(phase, share, group);
      const int pieces = (until - at < chunk ? until - at : chunk) * 2;  // pieces of 16 bytes per row
      const u32 tile = tiles + brought % SLOTS * TILE;
      // Four lanes load a row.
      const int row = lane / 4;
      if (row < rows) {
        const char* from = (const char*)(row_of(table + layer * TENSORS, phase, share, group, row) + at * 16);
#pragma unroll
        for (int i = 0; i < STEPS * 2; i += 4) {
          const int piece = i + lane % 4;
          if (piece < pieces) copy16(tile + row * PITCH + piece * 16, from + piece * 16);
        }
      }
      at += chunk;
      if (at >= until) {
        group += WARPS / share.slices;
        enter();
      }
    }
    brought++;
    copy_commit();
  }
};

__device__ __forceinline__ void load_matrices(u32 (&m)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(address) : "memory");
}

// Multiplies 16 rows of values, of which only the first eight may be real, with 8 rows of weights,
// 16 terms.
__device__ __forceinline__ void multiply(float (&sum)[4], u32 a0, u32 a2, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a0), "r"(0), "r"(a2), "r"(0), "r"(b0), "r"(b1));
}

// Computes this block's rows of weights times `x`, [ROWS][width + GAP]:
// sums[group][row of it][row of x][slice].
__device__ __forceinline__ void products(Ring& ring, int phase, const bf16* x, int width, const bf16* zeros, float* sums) {
  const Share share = ring.shares[phase];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slice = warp % share.slices;
  const int from = share.steps * slice / share.slices, until = share.steps * (slice + 1) / share.slices;
  const int chunk = chunk_of(until - from), row = lane % 8, matrix = lane / 8;
  // Missing rows of x are zeros.
  const u32 values = row < ROWS ? shared_address(x + row * (width + GAP)) + matrix * 16 : shared_address(zeros);
  const u32 stride = row < ROWS ? 32 : 0;
  const u32 weights = row * PITCH + matrix * 16;
  for (int group = warp / share.slices; group < groups_of(phase, share.rows); group += WARPS / share.slices) {
    float even[4] = {0, 0, 0, 0}, odd[4] = {0, 0, 0, 0};
    for (int at = from; at < until; at += chunk) {
      const int slot = ring.used % SLOTS, steps = until - at < chunk ? until - at : chunk;
      copy_wait<SLOTS - 1>();
      // The other lanes' copies have arrived too.
      __syncwarp();
      const u32 tile = ring.tiles + slot * TILE + weights;
#pragma unroll
      for (int step = 0; step < STEPS; step += 2)
        if (step < steps) {
          u32 a[4], b[4];
          load_matrices(a, values + (at + step) * stride);
          load_matrices(b, tile + step * 32);
          multiply(even, a[0], a[1], b[0], b[1]);
          if (step + 1 < steps) multiply(odd, a[2], a[3], b[2], b[3]);
        }
      __syncwarp();
      ring.used++;
      ring.bring();
    }
    if (lane / 4 < ROWS) {
#pragma unroll
      for (int i = 0; i < 2; i++)
        sums[((group * 8 + lane % 4 * 2 + i) * ROWS + lane / 4) * share.slices + slice] = even[i] + odd[i];
    }
  }
  __syncthreads();
}

// Returns the complete sum of row `i`, counted over groups, with row `r` of x.
__device__ __forceinline__ float joined(const float* sums, int i, int r, int slices) {
  const float* parts = sums + (i * ROWS + r) * slices;
  float total = 0.f;
  for (int slice = 0; slice < slices; slice++) total += parts[slice];
  return total;
}

// RMS norm of the rows of x, or of x_in if it is given, as bf16.
__device__ __forceinline__ void normed(const bf16* x_in, const float* x, const bf16* weight, float epsilon, bf16* to,
                                       float* squares) {
  constexpr int EACH = (HIDDEN + THREADS - 1) / THREADS;
  float value[ROWS][EACH];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int i = threadIdx.x + e * THREADS;
      value[r][e] = i < HIDDEN ? (x_in ? __bfloat162float(x_in[r * HIDDEN + i]) : __ldcg(x + r * HIDDEN + i)) : 0.f;
    }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float square = 0.f;
#pragma unroll
    for (int e = 0; e < EACH; e++) square = fmaf(value[r][e], value[r][e], square);
    square = warp_sum(square);
    if (threadIdx.x % 32 == 0) squares[r * WARPS + threadIdx.x / 32] = square;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float square = 0.f;
#pragma unroll
    for (int i = 0; i < WARPS; i++) square += squares[r * WARPS + i];
    const float scale = rsqrtf(square / HIDDEN + epsilon);
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int i = threadIdx.x + e * THREADS;
      if (i < HIDDEN) to[r * (HIDDEN + GAP) + i] = __float2bfloat16(value[r][e] * scale * __bfloat162float(weight[i]));
    }
  }
  __syncthreads();
}

// RMS norm and rotary position of one head; a lane has four of its values.
__device__ __forceinline__ void turned(const float* head, const bf16* weight, const bf16* cos, const bf16* sin,
                                       float epsilon, float (&out)[4]) {
  const int lane = threadIdx.x % 32;
  float v[4], square = 0.f;
#pragma unroll
  for (int i = 0; i < 4; i++) { v[i] = __ldcg(head + lane + 32 * i); square = fmaf(v[i], v[i], square); }
  const float scale = rsqrtf(warp_sum(square) / D + epsilon);
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] *= scale * __bfloat162float(weight[lane + 32 * i]);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float c = __bfloat162float(cos[lane + 32 * i]), s = __bfloat162float(sin[lane + 32 * i]);
    out[i] = v[i] * c - v[i + 2] * s;
    out[i + 2] = v[i + 2] * c + v[i] * s;
  }
}

// State of one query: the largest score, the sum of exp(score - largest), and the weighted values.
struct Mixed { float most, sum, value[8]; };

__device__ __forceinline__ void take(Mixed& m, float score, const float (&value)[8], bool is_real) {
  const float most = is_real ? fmaxf(m.most, score) : m.most;
  const float before = __expf(m.most - most), weight = is_real ? __expf(score - most) : 0.f;
  m.most = most;
  m.sum = fmaf(m.sum, before, weight);
#pragma unroll
  for (int i = 0; i < 8; i++) m.value[i] = fmaf(weight, value[i], m.value[i] * before);
}

constexpr int MIX = D + 2;  // a query's weighted values, its largest score, its sum

// Attention of one key head of one sequence over a part of its keys; the last block of the head
// joins the parts.
__device__ __forceinline__ void attend(const u64* table, const float* qkv, float* parts, bf16* mixed, const bf16* cos,
                                       const bf16* sin, u32* tickets, float* room, const DecodeArgs& args) {
  const int item = blockIdx.x / args.splits, split = blockIdx.x % args.splits;
  if (item >= ITEMS) return;
  const int r = item / KV_HEADS, head = item % KV_HEADS, position = args.position[r];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = threadIdx.x / 16, l = threadIdx.x % 16;
  float* queries = room;                // [GROUP][D]
  float* new_key = queries + GROUP * D;
  float* new_value = new_key + D;
  float* of_warps = new_value + D;      // [WARPS][GROUP][MIX]
  cos += r * (D / 2);
  sin += r * (D / 2);
  float out[4];
  if (warp < GROUP) {
    turned(qkv + r * QKV + (head * GROUP + warp) * D, (const bf16*)table[Q_NORM], cos, sin, args.epsilon, out);
#pragma unroll
    for (int i = 0; i < 4; i++) queries[warp * D + lane + 32 * i] = out[i] * 0.08838834764831845f;
  } else if (warp == GROUP) {
    turned(qkv + r * QKV + Q + head * D, (const bf16*)table[K_NORM], cos, sin, args.epsilon, out);
#pragma unroll
    for (int i = 0; i < 4; i++) new_key[lane + 32 * i] = __bfloat162float(__float2bfloat16(out[i]));
  } else if (warp == GROUP + 1) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      new_value[lane + 32 * i] = __bfloat162float(__float2bfloat16(__ldcg(qkv + r * QKV + Q + KV + head * D + lane + 32 * i)));
  }
  __syncthreads();
  const long long base = ((long long)(args.first_row + r) * KV_HEADS + head) * args.capacity * D;
  bf16* keys = (bf16*)table[KEYS] + base;
  bf16* values = (bf16*)table[VALUES] + base;
  const bool is_last = split == args.splits - 1;
  if (is_last && threadIdx.x < D) {
    keys[(long long)position * D + threadIdx.x] = __float2bfloat16(new_key[threadIdx.x]);
    values[(long long)position * D + threadIdx.x] = __float2bfloat16(new_value[threadIdx.x]);
  }
  Mixed m[GROUP];
  float q[GROUP][8];
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    m[g].most = -1e30f;
    m[g].sum = 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) { q[g][i] = queries[g * D + l * 8 + i]; m[g].value[i] = 0.f; }
  }
  // Sixteen lanes share a key. The new key is in shared memory.
  auto hear = [&](const float (&key)[8], const float (&value)[8], bool is_real) {
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
      float score = 0.f;
#pragma unroll
      for (int i = 0; i < 8; i++) score = fmaf(q[g][i], key[i], score);
#pragma unroll
      for (int i = 8; i; i >>= 1) score += __shfl_xor_sync(~0u, score, i);
      take(m[g], score, value, is_real);
    }
  };
  constexpr int DEEP = GROUP > 2 ? 2 : 4;
  const int from = position * split / args.splits, until = position * (split + 1) / args.splits;
  for (int first = from; first < until; first += 32 * DEEP) {
    uint4 key[DEEP], value[DEEP];
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
      const int j = first + half + 32 * i, safe = j < until ? j : from;
      key[i] = ((const uint4*)(keys + (long long)safe * D))[l];
      value[i] = ((const uint4*)(values + (long long)safe * D))[l];
    }
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
      float k[8], v[8];
      widen(key[i], k);
      widen(value[i], v);
      hear(k, v, first + half + 32 * i < until);
    }
  }
  if (is_last && warp == 0) {
    float k[8], v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) { k[i] = new_key[l * 8 + i]; v[i] = new_value[l * 8 + i]; }
    hear(k, v, half == 0);
  }
#pragma unroll
  for (int g = 0; g < GROUP; g++) {
    const float most = fmaxf(m[g].most, __shfl_xor_sync(~0u, m[g].most, 16));
    const float scale = __expf(m[g].most - most);
    float* to = of_warps + (warp * GROUP + g) * MIX;
    float sum = m[g].sum * scale;
    sum += __shfl_xor_sync(~0u, sum, 16);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float v = m[g].value[i] * scale;
      v += __shfl_xor_sync(~0u, v, 16);
      if (lane < 16) to[l * 8 + i] = v;
    }
    if (lane == 0) { to[D] = most; to[D + 1] = sum; }
  }
  __syncthreads();
  float* mine = parts + (item * SPLITS + split) * GROUP * MIX;
  for (int i = threadIdx.x; i < GROUP * D; i += THREADS) {
    const int g = i / D, d = i % D;
    float most = -1e30f, value = 0.f, sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, of_warps[(w * GROUP + g) * MIX + D]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const float* part = of_warps + (w * GROUP + g) * MIX;
      const float scale = __expf(part[D] - most);
      value = fmaf(part[d], scale, value);
      sum = fmaf(part[D + 1], scale, sum);
    }
    if (args.splits == 1) {
      mixed[r * Q + (head * GROUP + g) * D + d] = __float2bfloat16(value / sum);
    } else {
      mine[g * MIX + d] = value;
      if (d == 0) { mine[g * MIX + D] = most; mine[g * MIX + D + 1] = sum; }
    }
  }
  if (args.splits == 1) return;
  __threadfence();
  __syncthreads();
  __shared__ u32 ticket;
  if (threadIdx.x == 0) ticket = atomicInc(tickets + item, args.splits - 1);
  __syncthreads();
  if (ticket != args.splits - 1) return;
  __threadfence();
  const float* all = parts + item * SPLITS * GROUP * MIX;
  for (int i = threadIdx.x; i < GROUP * D; i += THREADS) {
    const int g = i / D, d = i % D;
    float most = -1e30f, value = 0.f, sum = 0.f;
    for (int s = 0; s < args.splits; s++) most = fmaxf(most, __ldcg(all + (s * GROUP + g) * MIX + D));
    for (int s = 0; s < args.splits; s++) {
      const float* part = all + (s * GROUP + g) * MIX;
      const float scale = __expf(__ldcg(part + D) - most);
      value = fmaf(__ldcg(part + d), scale, value);
      sum = fmaf(__ldcg(part + D + 1), scale, sum);
    }
    mixed[r * Q + (head * GROUP + g) * D + d] = __float2bfloat16(value / sum);
  }
}

// Copies rows that other blocks wrote to shared memory.
template <int WIDTH> __device__ __forceinline__ void fetch(const bf16* from, bf16* to) {
  for (int i = threadIdx.x; i < ROWS * WIDTH / 8; i += THREADS)
    *(uint4*)(to + i / (WIDTH / 8) * (WIDTH + GAP) + i % (WIDTH / 8) * 8) = __ldcg((const uint4*)from + i);
  __syncthreads();
}

__device__ __forceinline__ Share share_of(int phase, int rows, int width) {
  const int from = (long long)rows * blockIdx.x / BLOCKS, count = (long long)rows * (blockIdx.x + 1) / BLOCKS - from;
  const int groups = groups_of(phase, count), steps = width / 16;
  // The number of slices that balances the warps best; among equals the smallest, which has the
  // longest rows.
  int best = 1, least = 1 << 30;
  for (int slices = 1; slices <= WARPS; slices *= 2) {
    const int rounds = (groups + WARPS / slices - 1) / (WARPS / slices), cost = rounds * ((steps + slices - 1) / slices);
    if (cost < least) { least = cost; best = slices; }
  }
  return {from, count, best, steps};
}

constexpr int ROOM_X = ROWS * (WIDEST + GAP) * 2, ROOM_MIX = ((GROUP + 2) * D + WARPS * GROUP * MIX) * 4;
constexpr int ROOM = ((ROOM_X > ROOM_MIX ? ROOM_X : ROOM_MIX) + 127) / 128 * 128;

__device__ __forceinline__ void decode_layers(const u64* table, const bf16* x_in, const bf16* cos, const bf16* sin,
                                              bf16* x_out, float* scratch, u32* counters, const DecodeArgs& args,
                                              char* shared) {
  __shared__ Share shares[4];
  __shared__ float squares[ROWS * WARPS];
  __shared__ __align__(16) bf16 zeros[32];
  char* tiles = shared;
  char* room = tiles + WARPS * SLOTS * TILE;
  float* sums = (float*)(room + ROOM);
  bf16* values = (bf16*)room;
  const int warp = threadIdx.x / 32;

  float* x = scratch;
  float* qkv = x + ROWS * HIDDEN;
  float* parts = qkv + ROWS * QKV;
  bf16* mixed = (bf16*)(parts + ITEMS * SPLITS * GROUP * MIX);
  bf16* inner = mixed + ROWS * Q;
  u32* flags = counters;
  u32* tickets = counters + BLOCKS;

  if (threadIdx.x < 32) zeros[threadIdx.x] = __float2bfloat16(0.f);
  if (threadIdx.x == 0) {
    shares[0] = share_of(0, QKV, HIDDEN);
    shares[1] = share_of(1, HIDDEN, Q);
    shares[2] = share_of(2, INNER, HIDDEN);
    shares[3] = share_of(3, HIDDEN, INNER);
  }
  __syncthreads();
  Ring ring = {shared_address(tiles + warp * SLOTS * TILE), table, shares, 0, 0, -1, 0, 0, 0, 0, 0};
  ring.enter();
  for (int i = 0; i < SLOTS; i++) ring.bring();

  u32 meeting = 0;
  for (int layer = 0; layer < LAYERS; layer++) {
    const u64* own = table + layer * TENSORS;
    if (blockIdx.x < ITEMS * args.splits) {
      // Prefetches the keys and values while the queries are computed.
      const int item = blockIdx.x / args.splits, split = blockIdx.x % args.splits, r = item / KV_HEADS;
      const int from = args.position[r] * split / args.splits, until = args.position[r] * (split + 1) / args.splits;
      const long long at = ((long long)(args.first_row + r) * KV_HEADS + item % KV_HEADS) * args.capacity + from;
      prefetch((const bf16*)own[KEYS] + at * D, (until - from) * D * 2);
      prefetch((const bf16*)own[VALUES] + at * D, (until - from) * D * 2);
    } else if (blockIdx.x == BLOCKS - 1) {
      prefetch((const bf16*)own[NORM2], HIDDEN * 2);
      if (layer + 1 < LAYERS) prefetch((const bf16*)own[TENSORS + NORM1], HIDDEN * 2);
    }
    {
      normed(layer ? nullptr : x_in, x, (const bf16*)own[NORM1], args.epsilon, values, squares);
      products(ring, 0, values, HIDDEN, zeros, sums);
      const Share share = shares[0];
      for (int i = threadIdx.x; i < share.rows * ROWS; i += THREADS) {
        const int r = i / share.rows, row = i % share.rows;
        qkv[r * QKV + share.from + row] = joined(sums, row, r, share.slices);
      }
    }
    meet(flags, ++meeting);
    attend(own, qkv, parts, mixed, cos, sin, tickets, (float*)room, args);
    meet(flags, ++meeting);
    {
      fetch<Q>(mixed, values);
      products(ring, 1, values, Q, zeros, sums);
      const Share share = shares[1];
      for (int i = threadIdx.x; i < share.rows * ROWS; i += THREADS) {
        const int r = i / share.rows, row = i % share.rows, place = r * HIDDEN + share.from + row;
        const float before = layer ? __ldcg(x + place) : __bfloat162float(x_in[place]);
        x[place] = before + joined(sums, row, r, share.slices);
      }
    }
    meet(flags, ++meeting);
    {
      normed(nullptr, x, (const bf16*)own[NORM2], args.epsilon, values, squares);
      products(ring, 2, values, HIDDEN, zeros, sums);
      const Share share = shares[2];
      const int ups = (share.rows + 7) / 8 * 8;
      for (int i = threadIdx.x; i < share.rows * ROWS; i += THREADS) {
        const int r = i / share.rows, row = i % share.rows;
        const float gate = joined(sums, row, r, share.slices), up = joined(sums, ups + row, r, share.slices);
        inner[r * INNER + share.from + row] = __float2bfloat16(gate / (1.f + __expf(-gate)) * up);
      }
    }
    meet(flags, ++meeting);
    {
      fetch<INNER>(inner, values);
      products(ring, 3, values, INNER, zeros, sums);
      const Share share = shares[3];
      for (int i = threadIdx.x; i < share.rows * ROWS; i += THREADS) {
        const int r = i / share.rows, row = i % share.rows, place = r * HIDDEN + share.from + row;
        const float v = __ldcg(x + place) + joined(sums, row, r, share.slices);
        if (layer == LAYERS - 1) x_out[place] = __float2bfloat16(v); else x[place] = v;
      }
    }
    if (layer < LAYERS - 1) meet(flags, ++meeting);
  }
}
