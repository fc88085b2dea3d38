// y[b, m, n] = sum over taps t and c of x[b, m + shift + t step, c] w[n, t C + c], and the
// operations after it.
//
// One tap is a matrix product; several taps are a convolution, or a transposed one whose columns
// are phases. x is zero outside its rows. A block has two to four groups of 128 threads: the last
// loads tiles of 64 terms into a ring in shared memory, and each other one multiplies 64 rows by BN
// columns. The two blocks of a cluster have neighbouring rows and the same columns; each loads half
// of the weights for both. Blocks are persistent and process one output tile after the other.
//
// Source: the technique is that of NVIDIA's CUTLASS, "warp-specialized persistent cooperative"
// kernels.

struct ProductArgs {
  int batch, rows, columns, channels, taps;
  int shift, step;        // of rows of x
  int period;             // columns after which bias, gate and snake repeat
  int gate_step;          // distance of the gates of consecutive items in values, or 0: one for all
  long long row_size;     // of y and the residual, in values
  long long item_size;    // of a batch item of y; nothing is written outside
  long long offset;       // of y's first row
};

// Operations on a sum before it is written.
constexpr int BIAS = 1;      // + bias[n]
constexpr int RESIDUAL = 2;  // + residual[m, n]
constexpr int GATE = 4;      // times gate[b, n] before the residual
constexpr int SNAKE = 8;     // v + sin^2(exp(alpha[n]) v) / (exp(beta[n]) + 1e-9)
constexpr int BOTH = 16;     // with SNAKE: y is the sum, y2 its snake
constexpr int SWIGLU = 32;   // a tile is half gates, half ups: silu(gate) up

struct ProductTensors {
  bf16 *y, *y2;
  const bf16 *bias, *residual, *gate, *alpha, *beta;
};

__device__ __forceinline__ float snake(float v, float a, float b) {
  // sin^2 has the period pi; the fast sine is exact enough within half a period.
  float y = a * v;
  y = fmaf(rintf(y * 0.31830988618f), -3.14159265359f, y);
  float s = __sinf(y);
  return fmaf(s * s, b, v);
}

template <int BM, int BN, int STAGES, int CLUSTER, int AFTER>
__device__ __forceinline__ void product_tiles(const TensorMap& x_map, const TensorMap& w_map, const TensorMap& u_map,
                                              const ProductTensors& t, const ProductArgs& args) {
  constexpr int BK = 64, GROUPS = BM / 64;
  constexpr u32 BYTES = (BM + BN) * BK * sizeof(bf16);
  constexpr bool PER_COLUMN = (AFTER & (BIAS | GATE | SNAKE)) != 0;
  extern __shared__ __align__(1024) unsigned char shared[];
  bf16* x_tiles = (bf16*)(((u64)shared + 1023) & ~(u64)1023);
  bf16* w_tiles = x_tiles + STAGES * BM * BK;
  u64* full = (u64*)(w_tiles + STAGES * BN * BK);
  u64* empty = full + STAGES;
  float* per_column = (float*)(empty + STAGES);  // [bias, gate, exp(alpha), 1 / (exp(beta) + e)][BN]

  const int group = threadIdx.x / 128;
  const u32 rank = CLUSTER == 1 ? 0 : cluster_rank();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, GROUPS * CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  if (CLUSTER == 1) __syncthreads(); else cluster_sync();

  constexpr int TILE_N = AFTER & SWIGLU ? BN / 2 : BN;  // columns of y
  const int tiles_m = (args.rows + BM * CLUSTER - 1) / (BM * CLUSTER), tiles_n = (args.columns + TILE_N - 1) / TILE_N;
  const int tiles = args.batch * tiles_m * tiles_n;
  const int steps_c = (args.channels + BK - 1) / BK, steps = args.taps * steps_c;

  if (group == GROUPS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % 128 == 0) {
      int stage = 0, phase = 1;
      for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
        const int m = (tile % tiles_m * CLUSTER + rank) * BM, rest = tile / tiles_m;
        const int item = rest / tiles_n, n = rest % tiles_n * TILE_N;
        for (int tap = 0; tap < args.taps; tap++) {
          const int row = m + args.shift + tap * args.step;
          for (int c = 0; c < args.channels; c += BK) {
            barrier_wait(empty + stage, phase);
            barrier_expect(full + stage, BYTES);
            load_tile(x_tiles + stage * BM * BK, x_map, full + stage, c, row, item);
            const int term = tap * args.channels + c;
            bf16* w = w_tiles + stage * BN * BK;
            if (AFTER & SWIGLU) {
              bf16* u = w + BN / 2 * BK;
              if (CLUSTER == 1) {
                load_tile(w, w_map, full + stage, term, n);
                load_tile(u, u_map, full + stage, term, n);
              } else if (rank == 0) {
                load_tile_for_both(w, w_map, full + stage, term, n);
              } else {
                load_tile_for_both(u, u_map, full + stage, term, n);
              }
            } else if (CLUSTER == 1) {
              load_tile(w, w_map, full + stage, term, n);
            } else {
              load_tile_for_both(w + rank * (BN / 2) * BK, w_map, full + stage, term, n + rank * (BN / 2));
            }
            if (++stage == STAGES) { stage = 0; phase ^= 1; }
          }
        }
      }
    }
  } else {
    if (GROUPS == 3) asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int lane = threadIdx.x % 128, quad = threadIdx.x % 4;
    int stage = 0, phase = 0;
    float sum[BN / 2];
    // Tells the loaders of a stage, in both blocks of a cluster, that this group has read it.
    auto release = [&](u64* barrier) {
      if (CLUSTER == 1) {
        if (lane == 0) barrier_arrive(barrier);
      } else if (lane < CLUSTER) {
        barrier_arrive(barrier, lane);
      }
    };
    for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
      const int m = (tile % tiles_m * CLUSTER + rank) * BM + group * 64, rest = tile / tiles_m;
      const int item = rest / tiles_n, n = rest % tiles_n * TILE_N;
      if (PER_COLUMN) {
        // Waits until all groups are done with the columns of the last tile.
        asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128));
        for (int i = threadIdx.x; i < TILE_N; i += GROUPS * 128) {
          int column = (n + i) % args.period;
          if (n + i < args.columns) {
            if (AFTER & BIAS) per_column[i] = __bfloat162float(t.bias[column]);
            if (AFTER & GATE) per_column[BN + i] = __bfloat162float(t.gate[(long long)item * args.gate_step + column]);
            if (AFTER & SNAKE) {
              per_column[2 * BN + i] = expf(__bfloat162float(t.alpha[column]));
              per_column[3 * BN + i] = 1.f / (expf(__bfloat162float(t.beta[column])) + 1e-9f);
            }
          }
        }
        asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128));
      }
      // ANCHOR: multiply
      int previous = -1;
      for (int step = 0; step < steps; step++) {
        barrier_wait(full + stage, phase);
        wgmma_fence();
        const u64 a = tile_descriptor(x_tiles + stage * BM * BK + group * 64 * BK);
        const u64 b = tile_descriptor(w_tiles + stage * BN * BK);
#pragma unroll
        for (int k = 0; k < 4; k++) Wgmma<BN>::multiply(sum, a + 2 * k, b + 2 * k, (step | k) != 0);
        wgmma_commit();
        if (previous >= 0) {
          wgmma_wait<1>();
          release(empty + previous);
        }
        previous = stage;
        if (++stage == STAGES) { stage = 0; phase ^= 1; }
      }
      // ANCHOR_END: multiply
      wgmma_wait<0>();
      release(empty + previous);

      const bool whole = args.columns % 8 == 0;
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = m + lane / 32 * 16 + lane % 32 / 4 + half * 8;
        const long long line = row * args.row_size + args.offset;
        bf16* y = t.y + item * args.item_size;
        bf16* y2 = t.y2 + item * args.item_size;
        const bf16* residual = t.residual + item * args.item_size;
#pragma unroll
        for (int j = 0; j < TILE_N / 8; j += 4) {
          // The group of eight columns that this lane writes, side by side with the other lanes.
          const int mine = n + (j + quad) * 8;
          const long long place = line + mine;
          const bool inside = row < args.rows && mine < args.columns && place >= 0 && place < args.item_size;
          u32 old[4] = {0, 0, 0, 0};
          if (AFTER & RESIDUAL) {
            if (inside) {
              if (whole) {
                uint4 read = *(const uint4*)(residual + place);
                old[0] = read.x; old[1] = read.y; old[2] = read.z; old[3] = read.w;
              }
            }
            turn_quad(old);
          }
          u32 plain[4], waved[4];
#pragma unroll
          for (int i = 0; i < 4; i++) {
            float v[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
              const int c = (j + i) * 8 + quad * 2 + e;
              float s = sum[(j + i) * 4 + half * 2 + e];
              if (AFTER & SWIGLU) {
                float up = sum[TILE_N / 2 + (j + i) * 4 + half * 2 + e];
                s = __fdividef(s, 1.f + __expf(-s)) * up;
              }
              if (AFTER & BIAS) s += per_column[c];
              if (AFTER & GATE) s *= per_column[BN + c];
              if (AFTER & RESIDUAL) s += e ? high(old[i]) : low(old[i]);
              v[e] = s;
            }
            if (!(AFTER & SNAKE) || (AFTER & BOTH)) plain[i] = packed(v[0], v[1]);
            if (AFTER & SNAKE) {
              const int c = (j + i) * 8 + quad * 2;
#pragma unroll
              for (int e = 0; e < 2; e++) v[e] = snake(v[e], per_column[2 * BN + c + e], per_column[3 * BN + c + e]);
              waved[i] = packed(v[0], v[1]);
            }
          }
          if (whole) {
            if (!(AFTER & SNAKE) || (AFTER & BOTH)) {
              turn_quad(plain);
              if (inside) *(uint4*)(y + place) = make_uint4(plain[0], plain[1], plain[2], plain[3]);
            }
            if (AFTER & SNAKE) {
              turn_quad(waved);
              if (inside) *(uint4*)((AFTER & BOTH ? y2 : y) + place) = make_uint4(waved[0], waved[1], waved[2], waved[3]);
            }
          } else if (!(AFTER & (RESIDUAL | SNAKE))) {
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
              for (int e = 0; e < 2; e++) {
                const int column = n + (j + i) * 8 + quad * 2 + e;
                const long long own = line + column;
                if (row < args.rows && column < args.columns && own >= 0 && own < args.item_size)
                  y[own] = __float2bfloat16(e ? high(plain[i]) : low(plain[i]));
              }
          }
        }
      }
    }
  }
  // A block must not exit while the other still writes into its memory.
  if (CLUSTER > 1) cluster_sync();
}
