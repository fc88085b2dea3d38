// Shared code of the kernels for Hopper (compute capability 9.0): bf16, barriers in shared memory,
// tile loads by the copy engine (TMA), and descriptors of such tiles for wgmma.
//
// Source: NVIDIA, PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier",
// "Data Movement: cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix Instructions".
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap { u64 opaque[16]; };

__device__ __forceinline__ u32 shared_address(const void* p) {
  return (u32)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(u64* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

__device__ __forceinline__ void barrier_wait(u64* barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra out;\nbra again;\nout:\n}"
      ::"r"(shared_address(barrier)), "r"(phase) : "memory");
}

__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Arrives at the same barrier of block `rank` of the cluster. Earlier reads are complete; there is
// no further fence, because it would wait for all memory accesses of this thread.
__device__ __forceinline__ void barrier_arrive(u64* barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
      ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Loads a tile of a tensor with two to four axes, the last axis first. Outside the tensor are
// zeros.
__device__ __forceinline__ void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
      ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
      ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
      ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// Loads the same tile for both blocks of a cluster of two.
__device__ __forceinline__ void load_tile_for_both(void* to, const TensorMap& map, u64* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;"
      ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"((unsigned short)3)
      : "memory");
}

// Descriptor of rows of 64 bf16 values in the copy engine's 128-byte swizzle; they are the rows of
// the product.
__device__ __forceinline__ u64 tile_descriptor(const void* tile) {
  return (u64)((shared_address(tile) & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// Descriptor of the same rows if they are the terms of the product. Its columns are then the
// product's columns; the next 64 columns begin `half` bytes further on.
__device__ __forceinline__ u64 turned_descriptor(const void* tile, u32 half) {
  return (u64)((shared_address(tile) & 0x3FFFF) >> 4) | (u64)(half >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Packs two bf16 values in 32 bits, the first in the low half.
__device__ __forceinline__ u32 packed(float a, float b) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return *(u32*)&pair;
}
__device__ __forceinline__ float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// Four lanes that hold pairs of columns of four groups of eight exchange them; then each lane has
// one group.
__device__ __forceinline__ void turn_quad(u32 (&v)[4]) {
  int q = threadIdx.x % 4;
#pragma unroll
  for (int s = 1; s < 4; s *= 2)
#pragma unroll
    for (int i = 0; i < 4; i++)
      if ((i & s) == 0) {
        u32 other = __shfl_xor_sync(~0u, (q & s) ? v[i] : v[i | s], s);
        if (q & s) v[i] = other; else v[i | s] = other;
      }
}
