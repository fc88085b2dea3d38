// softmax(q k^T scale) v for heads of 128 values, without the score matrix.
//
// A block has GROUPS groups of 128 threads with 64 queries each, and one more group that loads
// tiles: the queries once, then KEYS keys or values at a time, with two tiles of each in flight.
// The weights of a tile are multiplied with its values while the softmax of the next tile is
// computed.
//
// Source: the technique is that of FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608).

struct AttentionArgs {
  int batch, heads, kv_heads, queries, keys;
  int sight;    // FULL, CAUSAL or WINDOW
  int near;     // distance of the last visible key after a query, and in a window of the first before it
  float scale;  // of scores, positive
};

constexpr int FULL = 0, CAUSAL = 1, WINDOW = 2;

constexpr int D = 128;
constexpr int STAGES = 2;  // tiles of keys, and of values, in flight at a time

// Two groups multiply in alternation: one computes its softmax while the matrix units work for the
// other.
__device__ __forceinline__ void turn_wait(int group) { asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory"); }
__device__ __forceinline__ void turn_give(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(1 + group) : "memory"); }

// The compiler moves no use of these values before this point.
template <int N> __device__ __forceinline__ void pin(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}

// ptxas would move a wait for a product up across the arithmetic before it, and nothing would
// overlap. A store that needs x keeps the wait behind it. The store never happens, because x is
// never negative.
__device__ __forceinline__ void order_after(float x, void* shared) {
  asm volatile("{\n.reg .pred q;\nsetp.lt.f32 q, %0, 0f00000000;\n@q st.shared.f32 [%1], %0;\n}"
               ::"f"(x), "r"(shared_address(shared)) : "memory");
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Turns the scores of a tile into weights. `highest` and `sum` belong to this thread's two rows,
// and `sum` only to its own columns. The caller must multiply older mixed values by `faded`.
template <int N>
__device__ __forceinline__ void softmax(float (&s)[N], float (&highest)[2], float (&sum)[2], float (&faded)[2],
                                        float scale) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float a = s[2 * h], b = s[2 * h + 1];
#pragma unroll
    for (int j = 1; j < N / 4; j++) {
      a = fmaxf(a, s[4 * j + 2 * h]);
      b = fmaxf(b, s[4 * j + 2 * h + 1]);
    }
    a = fmaxf(a, b);
    a = fmaxf(a, __shfl_xor_sync(~0u, a, 1));
    a = fmaxf(a, __shfl_xor_sync(~0u, a, 2));
    // `highest` starts finite, so that the weights of a row that has seen no key are 0 instead of
    // NaN.
    float next = fmaxf(highest[h], a);
    faded[h] = exp2_fast((highest[h] - next) * scale);
    highest[h] = next;
    float base = next * scale, x = 0.f, y = 0.f;
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
      float &u = s[4 * j + 2 * h], &v = s[4 * j + 2 * h + 1];
      u = exp2_fast(fmaf(u, scale, -base));
      x += u;
      v = exp2_fast(fmaf(v, scale, -base));
      y += v;
    }
    sum[h] = fmaf(sum[h], faded[h], x + y);
  }
}

template <int GROUPS, int KEYS>
__device__ __forceinline__ void attention_tiles(const TensorMap& q_map, const TensorMap& k_map, const TensorMap& v_map,
                                                bf16* output, const AttentionArgs& args) {
  constexpr bool TURNS = GROUPS == 2;
  constexpr int ROWS = GROUPS * 64, UNBOUNDED = 1 << 29;
  // A tile is two halves of 64 columns; a row of a half is 128 bytes.
  constexpr u32 Q_HALF = ROWS * 128, KV_HALF = KEYS * 128;
  constexpr u32 Q_BYTES = 2 * Q_HALF, KV_BYTES = 2 * KV_HALF;
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* q_tile = (unsigned char*)(((u64)shared + 1023) & ~(u64)1023);
  unsigned char* k_tiles = q_tile + Q_BYTES;
  unsigned char* v_tiles = k_tiles + STAGES * KV_BYTES;
  u64* q_full = (u64*)(v_tiles + STAGES * KV_BYTES);
  u64 *k_full = q_full + 1, *k_empty = k_full + STAGES;
  u64 *v_full = k_empty + STAGES, *v_empty = v_full + STAGES;

  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);  // tells the compiler that it is the same for a whole warp
  if (threadIdx.x == 0) {
    barrier_init(q_full, 1);
    for (int i = 0; i < STAGES; i++) {
      barrier_init(k_full + i, 1);
      barrier_init(v_full + i, 1);
      // Each warp that multiplies arrives.
      barrier_init(k_empty + i, 4 * GROUPS);
      barrier_init(v_empty + i, 4 * GROUPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  // Blocks of a head are neighbours, because they read the same keys. Late causal queries see the
  // most keys, so their blocks start first; otherwise the kernel would wait for them at its end.
  const int blocks = (args.queries + ROWS - 1) / ROWS, stacks = args.heads * args.batch;
  int block, stack;
  if (args.sight == CAUSAL) {
    block = blocks - 1 - (int)blockIdx.x / stacks;
    stack = (int)blockIdx.x % stacks;
  } else {
    block = (int)blockIdx.x % blocks;
    stack = (int)blockIdx.x / blocks;
  }
  const int head = stack % args.heads, item = stack / args.heads;
  const int first = block * ROWS;
  // Query r sees keys r - before to r + after.
  const int before = args.sight == WINDOW ? args.near : UNBOUNDED;
  const int after = args.sight == FULL ? UNBOUNDED : args.near;
  const int last = min(first + ROWS, args.queries) - 1;
  const int begin = max(0, first - before), end = min(args.keys, last + after + 1);
  const int tiles = end > begin ? (end - begin + KEYS - 1) / KEYS : 0;

  if (group == GROUPS) {
    // A multiprocessor has 65536 registers, and the groups that multiply need most of them.
    if constexpr (GROUPS == 3) asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    else asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % 128 == 0 && tiles > 0) {
      const int kv_head = head / (args.heads / args.kv_heads);
      barrier_expect(q_full, Q_BYTES);
      load_tile(q_tile, q_map, q_full, 0, first, head, item);
      load_tile(q_tile + Q_HALF, q_map, q_full, 64, first, head, item);
      // Read order: keys 0, keys 1, values 0, keys 2, values 1 and so on.
      for (int t = 0; t <= tiles; t++) {
        if (t < tiles) {
          int s = t % STAGES, phase = (t / STAGES) & 1;
          unsigned char* to = k_tiles + s * KV_BYTES;
          barrier_wait(k_empty + s, phase ^ 1);
          barrier_expect(k_full + s, KV_BYTES);
          load_tile(to, k_map, k_full + s, 0, begin + t * KEYS, kv_head, item);
          load_tile(to + KV_HALF, k_map, k_full + s, 64, begin + t * KEYS, kv_head, item);
        }
        if (t > 0) {
          int s = (t - 1) % STAGES, phase = ((t - 1) / STAGES) & 1;
          unsigned char* to = v_tiles + s * KV_BYTES;
          barrier_wait(v_empty + s, phase ^ 1);
          barrier_expect(v_full + s, KV_BYTES);
          load_tile(to, v_map, v_full + s, 0, begin + (t - 1) * KEYS, kv_head, item);
          load_tile(to + KV_HALF, v_map, v_full + s, 64, begin + (t - 1) * KEYS, kv_head, item);
        }
      }
    }
  } else {
    if constexpr (GROUPS == 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
    else if constexpr (GROUPS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, quad = lane % 4;
    const int group_row = first + group * 64, row = group_row + warp * 16 + lane / 4;
    const float scale = args.scale * 1.4426950408889634f;  // exponentials are powers of 2
    // Element 4 j + 2 h + c of `s` and `mixed` belongs to row `row + 8 h` and column
    // 8 j + 2 quad + c.
    float s[KEYS / 2], mixed[D / 2], highest[2] = {-1e30f, -1e30f}, sum[2] = {0.f, 0.f}, faded[2];
    u32 p[KEYS / 4];
#pragma unroll
    for (int i = 0; i < D / 2; i++) mixed[i] = 0.f;

    const u64 q_at = tile_descriptor(q_tile + group * 64 * 128), k_at = tile_descriptor(k_tiles);
    const u64 v_at = turned_descriptor(v_tiles, KV_HALF);
    auto multiply_keys = [&](int stage) {
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < D / 16; i++)
        Wgmma<KEYS>::multiply(s, q_at + (i / 4) * (Q_HALF >> 4) + (i % 4) * 2,
                              k_at + stage * (KV_BYTES >> 4) + (i / 4) * (KV_HALF >> 4) + (i % 4) * 2, i != 0);
      wgmma_commit();
    };
    auto multiply_values = [&](int stage) {
      wgmma_fence();  // without it, after a wait for a barrier, ptxas lets no two products overlap
#pragma unroll
      for (int i = 0; i < KEYS / 16; i++)
        wgmma_values(mixed, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3],
                     v_at + stage * (KV_BYTES >> 4) + i * 128);
      wgmma_commit();
    };
    // Most tiles are fully visible to all rows of a group.
    auto hide = [&](int t) {
      const int key = begin + t * KEYS;
      if (key < group_row + 63 - before || key + KEYS > min(args.keys, group_row + after + 1)) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int r = row + 8 * h, from = r - before - key - 2 * quad;
          const int until = min(args.keys, r + after + 1) - key - 2 * quad;
#pragma unroll
          for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
            for (int c = 0; c < 2; c++)
              if (8 * j + c < from || 8 * j + c >= until) s[4 * j + 2 * h + c] = __int_as_float(0xff800000);
          }
        }
      }
    };
    // Scores already have the register layout in which the matrix units read weights.
    auto round_weights = [&]() {
#pragma unroll
      for (int i = 0; i < KEYS / 4; i++) p[i] = packed(s[2 * i], s[2 * i + 1]);
    };

    if (tiles > 0) {
      barrier_wait(q_full, 0);
      barrier_wait(k_full, 0);
      multiply_keys(0);
      wgmma_wait<0>();
      pin(s);
      if (lane == 0) barrier_arrive(k_empty);
      hide(0);
      softmax(s, highest, sum, faded, scale);
      round_weights();
      // Group 0 starts. Every turn that is given is also waited for, so that none is left over.
      if (TURNS && group == 1 && tiles > 1) turn_give(0);
#pragma unroll 1
      for (int t = 1; t < tiles; t++) {
        const int stage = t % STAGES, previous = (t - 1) % STAGES;
        barrier_wait(k_full + stage, (t / STAGES) & 1);
        if (TURNS) turn_wait(group);
        multiply_keys(stage);
        barrier_wait(v_full + previous, ((t - 1) / STAGES) & 1);
        multiply_values(previous);
        if (TURNS && (group == 0 || t + 1 < tiles)) turn_give(1 - group);
        wgmma_wait<1>();
        pin(s);
        if (lane == 0) barrier_arrive(k_empty + stage);
        hide(t);
        softmax(s, highest, sum, faded, scale);
        order_after(sum[0] + sum[1], q_full);
        wgmma_wait<0>();
        pin(s);
        pin(mixed);
        if (lane == 0) barrier_arrive(v_empty + previous);
#pragma unroll
        for (int i = 0; i < D / 2; i++) mixed[i] *= faded[(i / 2) % 2];
        round_weights();
      }
      barrier_wait(v_full + (tiles - 1) % STAGES, ((tiles - 1) / STAGES) & 1);
      multiply_values((tiles - 1) % STAGES);
      wgmma_wait<0>();
      pin(mixed);
    }

#pragma unroll
    for (int h = 0; h < 2; h++) {
      float total = sum[h];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      const float inverse = total > 0.f ? 1.f / total : 0.f;
      const int r = row + 8 * h;
      bf16* to = output + (((long long)item * args.queries + r) * args.heads + head) * D + quad * 8;
#pragma unroll
      for (int g = 0; g < D / 32; g++) {
        u32 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int at = (4 * g + i) * 4 + 2 * h;
          v[i] = packed(mixed[at] * inverse, mixed[at + 1] * inverse);
        }
        turn_quad(v);
        if (r < args.queries) *(uint4*)(to + g * 32) = make_uint4(v[0], v[1], v[2], v[3]);
      }
    }
  }
}
