// Emulation of AMX for machines without it: a SIGILL handler that executes its instructions.
//
// Machine code with tiles then runs as it is, at some microseconds an instruction; the tiles are
// those of the thread. An instruction that the manual forbids, such as a product of tiles whose
// shapes do not fit, ends the process, as does anything else that is no instruction.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG,
// TILELOADD, TILERELEASE, TILESTORED, TILEZERO, TDPBF16PS and TDPBSSD.
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <cmath>

namespace {

constexpr int kTiles = 8;
constexpr int kRows = 16;
constexpr int kRowBytes = 64;

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  uint8_t bytes[kRows][kRowBytes] = {};
};

thread_local Tile tiles[kTiles];
struct sigaction before;
int64_t products;

// What LDTILECFG reads.
struct Shapes {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

void Configure(const Shapes& shapes) {
  if (shapes.palette != 1 || shapes.start_row != 0) abort();
  for (int i = 0; i < kTiles; ++i) {
    tiles[i] = Tile();
    tiles[i].rows = shapes.rows[i];
    tiles[i].row_bytes = shapes.row_bytes[i];
    if (tiles[i].rows > kRows || tiles[i].row_bytes > kRowBytes) abort();
  }
}

void Clear(Tile* tile) { memset(tile->bytes, 0, sizeof(tile->bytes)); }

// What may be used at all has a shape.
Tile& Shaped(int number) {
  if (tiles[number].rows == 0 || tiles[number].row_bytes == 0) abort();
  return tiles[number];
}

float Flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

float Bf16(const uint8_t* bytes) {
  const uint32_t bits = uint32_t(bytes[0]) << 16 | uint32_t(bytes[1]) << 24;
  float x;
  memcpy(&x, &bits, sizeof(x));
  return Flushed(x);
}

void AddFloats(Tile* c, const Tile& a, const Tile& b) {
  for (int m = 0; m < c->rows; ++m) {
    for (int n = 0; n < c->row_bytes / 4; ++n) {
      float sums[2] = {0, 0};
      for (int k = 0; k < a.row_bytes / 4; ++k) {
        for (int i = 0; i < 2; ++i) {
          const float x = Bf16(&a.bytes[m][4 * k + 2 * i]);
          const float y = Bf16(&b.bytes[k][4 * n + 2 * i]);
          sums[i] = Flushed(std::fma(x, y, sums[i]));
        }
      }
      float total;
      memcpy(&total, &c->bytes[m][4 * n], sizeof(total));
      total = Flushed(Flushed(total) + Flushed(sums[0] + sums[1]));
      memcpy(&c->bytes[m][4 * n], &total, sizeof(total));
    }
  }
}

uint32_t Byte(uint8_t byte, bool is_signed) { return is_signed ? uint32_t(int8_t(byte)) : byte; }

void AddBytes(Tile* c, const Tile& a, const Tile& b, bool is_a_signed, bool is_b_signed) {
  for (int m = 0; m < c->rows; ++m) {
    for (int n = 0; n < c->row_bytes / 4; ++n) {
      uint32_t total;
      memcpy(&total, &c->bytes[m][4 * n], sizeof(total));
      for (int k = 0; k < a.row_bytes / 4; ++k) {
        for (int i = 0; i < 4; ++i) {
          total += Byte(a.bytes[m][4 * k + i], is_a_signed) *
                   Byte(b.bytes[k][4 * n + i], is_b_signed);
        }
      }
      memcpy(&c->bytes[m][4 * n], &total, sizeof(total));
    }
  }
}

enum Prefix { kNone, k66, kF3, kF2 };

void Multiply(int destination, int first, int second, uint8_t opcode, Prefix prefix) {
  Tile& c = Shaped(destination);
  const Tile& a = Shaped(first);
  const Tile& b = Shaped(second);
  const bool fits = c.rows == a.rows && c.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows;
  if (!fits || destination == first || destination == second || first == second) abort();
  if (opcode == 0x5C && prefix != kF3) abort();
  __atomic_add_fetch(&products, 1, __ATOMIC_RELAXED);
  if (opcode == 0x5C) return AddFloats(&c, a, b);
  AddBytes(&c, a, b, prefix == kF2 || prefix == kF3, prefix == kF2 || prefix == k66);
}

int64_t Register(const ucontext_t& context, int number) {
  constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[number]];
}

// An operand in memory.
struct Operand {
  uint8_t* address;   // without what the index adds
  int64_t index = 0;  // scaled
  int length;         // of the bytes that tell it, that of the registers included
};

Operand ReadOperand(const uint8_t* code, bool extends_index, bool extends_base,
                    const ucontext_t& context) {
  const int mode = code[0] >> 6;
  int base = code[0] & 7;
  Operand found = {nullptr, 0, 1};
  if (base == 4) {
    const uint8_t sib = code[found.length++];
    const int index = (sib >> 3 & 7) + 8 * extends_index;
    base = sib & 7;
    if (index != 4) found.index = Register(context, index) << (sib >> 6);
  }
  if (mode == 3 || (mode == 0 && base == 5)) abort();  // relative to code: compilers write none
  int64_t displacement = 0;
  if (mode == 1) {
    displacement = int8_t(code[found.length++]);
  } else if (mode == 2) {
    int32_t wide;
    memcpy(&wide, code + found.length, sizeof(wide));
    displacement = wide;
    found.length += sizeof(wide);
  }
  const int64_t address = Register(context, base + 8 * extends_base) + displacement;
  found.address = reinterpret_cast<uint8_t*>(address);
  return found;
}

// Runs the instruction at `code`; its length, or 0 if it is none of AMX's.
int Run(const uint8_t* code, const ucontext_t& context) {
  // Three bytes that stand for prefixes, the opcode, and the registers.
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) return 0;
  const Prefix prefix = Prefix(code[2] & 3);
  const uint8_t opcode = code[3];
  const uint8_t registers = code[4];
  const int number = registers >> 3 & 7;
  const bool is_register = registers >> 6 == 3;
  if (opcode == 0x5C || opcode == 0x5E) {
    if (!is_register) return 0;
    Multiply(number, registers & 7, ~code[2] >> 3 & 7, opcode, prefix);
    return 5;
  }
  if (opcode == 0x49 && is_register) {
    if (prefix == kF2) {
      Clear(&Shaped(number));
    } else if (prefix == kNone && registers == 0xC0) {
      for (Tile& tile : tiles) tile = Tile();
    } else {
      return 0;
    }
    return 5;
  }
  if (opcode != 0x49 && opcode != 0x4B) return 0;
  const Operand memory = ReadOperand(code + 4, !(code[1] & 0x40), !(code[1] & 0x20), context);
  if (opcode == 0x49) {
    if (prefix != kNone) return 0;
    Shapes shapes;
    memcpy(&shapes, memory.address + memory.index, sizeof(shapes));
    Configure(shapes);
  } else if (prefix == kNone) {
    return 0;
  } else {
    Tile& tile = Shaped(number);
    if (prefix != kF3) Clear(&tile);
    for (int row = 0; row < tile.rows; ++row) {
      uint8_t* there = memory.address + row * memory.index;
      if (prefix == kF3) {
        memcpy(there, tile.bytes[row], tile.row_bytes);
      } else {
        memcpy(tile.bytes[row], there, tile.row_bytes);
      }
    }
  }
  return 4 + memory.length;
}

void Handle(int, siginfo_t*, void* argument) {
  ucontext_t& context = *static_cast<ucontext_t*>(argument);
  greg_t& place = context.uc_mcontext.gregs[REG_RIP];
  const int length = Run(reinterpret_cast<const uint8_t*>(place), context);
  if (length == 0) abort();
  place += length;
}

}  // namespace

// From now on, this process has AMX; not zero if that cannot be.
extern "C" int begin_tiles() {
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return sigaction(SIGILL, &action, &before);
}

// It has none any more.
extern "C" int end_tiles() { return sigaction(SIGILL, &before, nullptr); }

// Products of tiles that this process has computed so far.
extern "C" int64_t emulated_products() { return __atomic_load_n(&products, __ATOMIC_RELAXED); }
