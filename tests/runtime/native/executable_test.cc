// Programs here are C++ functions with the ABI; tests/runtime/test_cpu.py runs compiled ones.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "abi.h"
#include "check.h"

namespace ffi = tvm::ffi;
using Spec = ffi::Tuple<ffi::String, ffi::String, ffi::Array<int64_t>>;
using Pair = ffi::Tuple<int64_t, int64_t>;

constexpr int64_t kStatic = 0, kSymbol = 1, kDerived = 2;

template <typename Code>
int64_t Address(Code* code) {
  return reinterpret_cast<int64_t>(code);
}

// y[n, m] = x[n, m] + x[0, 0], read after the first element of y is written.
int32_t AddFirst(void** buffers, const int64_t* sizes, void*, void*) {
  const auto* x = static_cast<const float*>(buffers[0]);
  auto* y = static_cast<float*>(buffers[1]);
  for (int64_t i = sizes[0] * sizes[1]; i-- > 0;) y[i] = x[i] + x[0];
  return 0;
}

// Binds as many symbols as the first input names, in order, unless told otherwise.
ffi::Function Make(relax_rt2_main main, relax_rt2_shapes shapes, const ffi::Array<Spec>& inputs,
                   const ffi::Array<Spec>& outputs, const ffi::Array<ffi::String>& sizes,
                   const Pair& arena = Pair(kStatic, 0), const ffi::Array<int64_t>& constants = {},
                   ffi::Any keep_alive = nullptr, ffi::Array<int64_t> binders = {},
                   const ffi::Array<int64_t>& checks = {}, relax_rt2_profile* profile = nullptr) {
  if (binders.empty() && !inputs.empty()) {
    const ffi::Array<int64_t> dims = inputs[0].get<2>();
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()) / 2; ++d) {
      if (dims[2 * d] == kSymbol) {
        for (const int64_t number : {int64_t{0}, d, int64_t{1}, int64_t{0}}) {
          binders.push_back(number);
        }
      }
    }
  }
  return ffi::Function::GetGlobalRequired("relax_mlir.make_executable")(
             Address(main), Address(shapes), "main", inputs, outputs, sizes, binders, checks, arena,
             constants, 1, keep_alive, Address(profile))
      .cast<ffi::Function>();
}

ffi::Function MakeAddFirst() {
  const ffi::Array<int64_t> dims{kSymbol, 0, kSymbol, 1};
  return Make(AddFirst, nullptr, {Spec("x", "float32", dims)}, {Spec("y", "float32", dims)},
              {"n", "m"});
}

void CheckValues(const float* got, const std::vector<float>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) CHECK_EQUAL(got[i], wanted[i]);
}

void TestAllocatesOutputs() {
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  View input(x.data(), kFloat32, {2, 3});
  const auto results = MakeAddFirst()(&input.tensor).cast<ffi::Array<ffi::Tensor>>();
  CHECK_EQUAL(results.size(), 1u);
  CHECK((results[0].size(0) == 2 && results[0].size(1) == 3), "the shape");
  CHECK_EQUAL(reinterpret_cast<uintptr_t>(results[0].data_ptr()) % 64, 0u);
  CheckValues(static_cast<float*>(results[0].data_ptr()), {2, 3, 4, 5, 6, 7});
}

void TestEmptyTensors() {
  View input(nullptr, kFloat32, {0, 3});
  const auto results = MakeAddFirst()(&input.tensor).cast<ffi::Array<ffi::Tensor>>();
  CHECK((results[0].size(0) == 0 && results[0].size(1) == 3), "the shape");
}

void TestInputsOfAnyLayout() {
  std::vector<float> x{1, 4, 2, 5, 3, 6, 0};
  const ffi::Function add = MakeAddFirst();
  const auto run = [&](View* input) {
    return add(&input->tensor).cast<ffi::Array<ffi::Tensor>>()[0];
  };
  View columns(x.data(), kFloat32, {2, 3}, {1, 2});
  CheckValues(static_cast<float*>(run(&columns).data_ptr()), {2, 3, 4, 5, 6, 7});
  View backwards(&x[5], kFloat32, {1, 6}, {0, -1});
  CheckValues(static_cast<float*>(run(&backwards).data_ptr()), {12, 9, 11, 8, 10, 7});
  std::vector<char> bytes(64);
  std::memcpy(&bytes[1], x.data(), 24);
  View misaligned(&bytes[1], kFloat32, {2, 3});
  CheckValues(static_cast<float*>(run(&misaligned).data_ptr()), {2, 5, 3, 6, 4, 7});
  View no_strides(x.data(), kFloat32, {2, 3});
  no_strides.tensor.strides = nullptr;
  no_strides.tensor.byte_offset = 4;
  CheckValues(static_cast<float*>(run(&no_strides).data_ptr()), {8, 6, 9, 7, 10, 4});
}

void TestOutputsOfTheCaller() {
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  const ffi::Function add = MakeAddFirst();
  View input(x.data(), kFloat32, {2, 3});
  std::vector<float> y(13, -1);
  View with_gaps(&y[12], kFloat32, {2, 3}, {-6, -2});
  add(&input.tensor, &with_gaps.tensor);
  CheckValues(y.data(), {-1, -1, 7, -1, 6, -1, 5, -1, 4, -1, 3, -1, 2});

  add(&input.tensor, &input.tensor);  // in place
  CheckValues(x.data(), {2, 3, 4, 5, 6, 7});
  View shifted(&x[0], kFloat32, {1, 5});
  View target(&x[1], kFloat32, {1, 5});
  add(&shifted.tensor, &target.tensor);
  CheckValues(x.data(), {2, 4, 5, 6, 7, 8});

  const int64_t shape[] = {2, 3};
  struct Allocator {
    void AllocData(DLTensor* tensor) { tensor->data = new float[6]; }
    void FreeData(DLTensor* tensor) { delete[] static_cast<float*>(tensor->data); }
  };
  const auto mine = ffi::Tensor::FromNDAlloc(Allocator(), ffi::ShapeView(shape, 2), kFloat32,
                                             DLDevice{kDLCPU, 0});
  const auto results = add(&input.tensor, mine).cast<ffi::Array<ffi::Tensor>>();
  CHECK(results[0].same_as(mine), "the outputs come back");
}

// Two outputs of [n], the second one reversed.
int32_t CopyTwice(void** buffers, const int64_t* sizes, void*, void*) {
  for (int64_t i = 0; i < sizes[0]; ++i) {
    static_cast<float*>(buffers[1])[i] = static_cast<float*>(buffers[0])[i];
    static_cast<float*>(buffers[2])[sizes[0] - 1 - i] = static_cast<float*>(buffers[0])[i];
  }
  return 0;
}

void TestOutputsThatShareMemory() {
  const ffi::Array<int64_t> dims{kSymbol, 0};
  const ffi::Function copy =
      Make(CopyTwice, nullptr, {Spec("x", "float32", dims)},
           {Spec("y", "float32", dims), Spec("z", "float32", dims)}, {"n"});
  std::vector<float> x{1, 2, 3};
  std::vector<float> y(8, 0);
  View input(x.data(), kFloat32, {3});
  View even(&y[0], kFloat32, {3}, {2});
  View odd(&y[1], kFloat32, {3}, {2});
  copy(&input.tensor, &even.tensor, &odd.tensor);
  CheckValues(y.data(), {1, 3, 2, 2, 3, 1});
  View front(&y[0], kFloat32, {3});
  View back(&y[2], kFloat32, {3});
  View constant(&y[0], kFloat32, {3}, {0});
  CHECK_EQUAL(ErrorOf([&] { copy(&input.tensor, &front.tensor, &back.tensor); }),
              "ValueError: `main`: output 1 `z`: shares memory with output 0");
  CHECK_EQUAL(ErrorOf([&] { copy(&input.tensor, &constant.tensor, &back.tensor); }),
              "ValueError: `main`: output 0 `y`: two of its elements share memory");
}

// sizes: n, n + 1, bytes. Writes constant[0] + n into out[n + 1], by way of the arena.
void Grow(int64_t* sizes) {
  sizes[1] = sizes[0] + 1;
  sizes[2] = sizes[1] * 8;
}
int32_t Fill(void** buffers, const int64_t* sizes, void* arena, void*) {
  CHECK_EQUAL(reinterpret_cast<uintptr_t>(arena) % 64, 0u);
  auto* scratch = static_cast<int64_t*>(arena);
  const int64_t base = *static_cast<int64_t*>(buffers[3]);
  for (int64_t i = 0; i < sizes[1]; ++i) scratch[i] = base + sizes[0];
  std::this_thread::yield();
  std::memcpy(buffers[2], scratch, static_cast<size_t>(sizes[2]));
  return 0;
}

ffi::Function MakeFill(int64_t* constant) {
  return Make(Fill, Grow,
              {Spec("a", "float32", ffi::Array<int64_t>{kSymbol, 0}),
               Spec("b", "float32", ffi::Array<int64_t>{kDerived, 1})},
              {Spec("c", "int64", ffi::Array<int64_t>{kDerived, 1})}, {"n", "n + 1", "8*n + 8"},
              Pair(kDerived, 2), {reinterpret_cast<int64_t>(constant)});
}

void TestDerivedSizesArenaAndConstants() {
  int64_t constant = 100;
  const ffi::Function fill = MakeFill(&constant);
  std::vector<float> data(1000);
  for (const int64_t n : {3, 0, 500, 2}) {  // the arena grows and is reused
    View a(data.data(), kFloat32, {n});
    View b(data.data(), kFloat32, {n + 1});
    const auto c = fill(&a.tensor, &b.tensor).cast<ffi::Array<ffi::Tensor>>()[0];
    CHECK_EQUAL(c.size(0), n + 1);
    CHECK_EQUAL(static_cast<int64_t*>(c.data_ptr())[n], 100 + n);
  }
  View a(data.data(), kFloat32, {4});
  CHECK_EQUAL(ErrorOf([&] { fill(&a.tensor, &a.tensor); }),
              "ValueError: `main`: argument 1 `b`: dimension 0 (`n + 1`): expected 5, got 4");
}

void TestCallsAtOnceHaveTheirOwnArenas() {
  int64_t constant = 7;
  const ffi::Function fill = MakeFill(&constant);
  std::vector<float> data(1000);
  std::vector<std::thread> callers;
  for (int64_t caller = 1; caller <= 4; ++caller) {
    callers.emplace_back([&, caller] {
      View a(data.data(), kFloat32, {caller * 100});
      View b(data.data(), kFloat32, {caller * 100 + 1});
      for (int i = 0; i < 200; ++i) {
        const auto c = fill(&a.tensor, &b.tensor).cast<ffi::Array<ffi::Tensor>>()[0];
        const auto* values = static_cast<const int64_t*>(c.data_ptr());
        for (int64_t at = 0; at < c.size(0); ++at) CHECK_EQUAL(values[at], 7 + caller * 100);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

void TestArgumentErrors() {
  std::vector<float> data(64);
  const ffi::Function main =
      Make(AddFirst, nullptr,
           {Spec("a", "float32", ffi::Array<int64_t>{kSymbol, 0}),
            Spec("x", "float32", ffi::Array<int64_t>{kSymbol, 0, kStatic, 784})},
           {Spec("y", "float32", ffi::Array<int64_t>{kSymbol, 0})}, {"n"});
  View a(data.data(), kFloat32, {4});
  View x(data.data(), kFloat32, {4, 784});
  View short_x(data.data(), kFloat32, {4, 10});
  View tall_x(data.data(), kFloat32, {5, 784});
  View halves(data.data(), kFloat16, {4});
  View remote(data.data(), kFloat32, {4});
  remote.tensor.device = {kDLCUDA, 0};
  const auto error = [&](View* first, View* second) {
    return ErrorOf([&] { main(&first->tensor, &second->tensor); });
  };
  CHECK_EQUAL(error(&a, &short_x),
              "ValueError: `main`: argument 1 `x`: dimension 1: expected 784, got 10");
  CHECK_EQUAL(error(&a, &tall_x),
              "ValueError: `main`: argument 1 `x`: dimension 0 (`n`): expected "
              "4 (bound by argument `a` dimension 0), got 5");
  CHECK_EQUAL(error(&a, &a), "ValueError: `main`: argument 1 `x`: expected rank 2, got 1");
  CHECK_EQUAL(error(&halves, &x),
              "TypeError: `main`: argument 0 `a`: expected element type "
              "float32, got float16");
  CHECK_EQUAL(error(&remote, &x),
              "TypeError: `main`: argument 0 `a`: expected a tensor in CPU "
              "memory, got one on device type 2");
  CHECK_EQUAL(ErrorOf([&] { main(1, &x.tensor); }),
              "TypeError: `main`: argument 0 `a`: expected a tensor, got int");
  CHECK_EQUAL(ErrorOf([&] { main(&a.tensor); }),
              "TypeError: `main`: expected 2 arguments, or 3 with outputs, got 1");
  View long_y(data.data(), kFloat32, {6});
  CHECK_EQUAL(ErrorOf([&] { main(&a.tensor, &x.tensor, &long_y.tensor); }),
              "ValueError: `main`: output 0 `y`: dimension 0 (`n`): expected 4 (bound by argument "
              "`a` dimension 0), got 6");
}

void TestSolvesForSymbolsAndChecks() {
  // x is [n + 1].
  const auto make = [](const ffi::Array<int64_t>& checks) {
    return Make(Fill, Grow, {Spec("x", "float32", ffi::Array<int64_t>{kDerived, 1})}, {},
                {"n", "n + 1", "8*n + 8"}, Pair(kDerived, 2), {}, nullptr, {0, 0, 1, 1}, checks);
  };
  const auto error = [&](const ffi::Array<int64_t>& checks, int64_t size) {
    std::vector<float> data(8);
    View x(data.data(), kFloat32, {size});
    return ErrorOf([&] { make(checks)(&x.tensor); });
  };
  CHECK_EQUAL(error({}, 0),
              "ValueError: `main`: argument 0 `x`: dimension 0: expected `n + 1`, got 0");
  CHECK_EQUAL(error({kDerived, 1, 0, kStatic, 4}, 5),
              "ValueError: `main`: sizes do not fit: expected `n + 1` to be 4, got 5 and 4, "
              "where `n` is 4 by dimension 0 of argument 0 `x`");
  CHECK_EQUAL(error({kSymbol, 0, 1, kStatic, 3}, 3),
              "ValueError: `main`: sizes do not fit: expected `n` to be at least 3, got 2 and 3, "
              "where `n` is 2 by dimension 0 of argument 0 `x`");
  CHECK_EQUAL(error({kSymbol, 0, 1, kDerived, 7}, 3),
              "ValueError: `main`: check: no such size: kind 2, value 7");
}

void TestErrorsWhenMaking() {
  const auto make = [](const ffi::Array<int64_t>& input, const ffi::Array<int64_t>& output) {
    return ErrorOf([&] {
      Make(AddFirst, nullptr, {Spec("x", "float32", input)}, {Spec("y", "float32", output)},
           {"n", "n + 1"});
    });
  };
  const ffi::Array<int64_t> n{kSymbol, 0};
  CHECK_EQUAL(make(n, n), "no error");
  CHECK_EQUAL(make({kStatic, 3}, n),
              "ValueError: `main`: output `y`: no such size: kind 1, value 0");
  CHECK_EQUAL(make(n, {kSymbol, 1}),
              "ValueError: `main`: output `y`: no such size: kind 1, value 1");
  CHECK_EQUAL(make(n, {3, 0}), "ValueError: `main`: output `y`: no such size: kind 3, value 0");
  CHECK_EQUAL(make(n, {kStatic, -1}),
              "ValueError: `main`: output `y`: no such size: kind 0, value -1");
  CHECK_EQUAL(make(n, {kDerived, 1}),
              "ValueError: `main`: output `y`: a derived size needs a shape function");
  CHECK_EQUAL(make(n, {kStatic}),
              "ValueError: `main`: output `y`: dimensions are pairs of a kind and a value");
}

void Explode(int64_t* sizes) { sizes[1] = sizes[0] == 1 ? -5 : int64_t{1} << 62; }
int32_t Fail(void** buffers, const int64_t*, void*, void* context) {
  switch (*static_cast<int32_t*>(buffers[0])) {
    case 0: return relax_rt2_call_packed("test.no_such_function", 0, nullptr);
    case 1: return -1;
    case 2: static_cast<relax_rt2_context*>(context)->failure = kRelaxRt2OutOfMemory; return 0;
    default: TVMFFIErrorSetRaisedFromCStr("IndexError", "out of range"); return 3;
  }
}

void TestFailuresOfThePrograms() {
  const ffi::Function fail =
      Make(Fail, nullptr, {Spec("x", "int32", ffi::Array<int64_t>{})}, {}, {});
  const auto error = [&](int32_t code) {
    View x(&code, {kDLInt, 32, 1}, {});
    return ErrorOf([&] { fail(&x.tensor); });
  };
  CHECK_EQUAL(error(0), "ValueError: `test.no_such_function`: no such function is registered");
  CHECK_EQUAL(error(1), "RuntimeError: `main`: failed with status -1 and no error");
  CHECK_EQUAL(error(2), "MemoryError: `main`: out of memory for the scratch of a kernel");
  CHECK_EQUAL(error(3), "IndexError: out of range");

  const ffi::Function big =
      Make(Fail, Explode, {Spec("x", "float32", ffi::Array<int64_t>{kSymbol, 0})},
           {Spec("y", "float32", ffi::Array<int64_t>{kDerived, 1})}, {"n", "m"});
  std::vector<float> data(2);
  View one(data.data(), kFloat32, {1});
  View two(data.data(), kFloat32, {2});
  CHECK_EQUAL(ErrorOf([&] { big(&one.tensor); }),
              "ValueError: `main`: output `y`: the shape [-5] is negative or too large");
  CHECK_EQUAL(ErrorOf([&] { big(&two.tensor); }),
              "ValueError: `main`: output `y`: the shape "
              "[4611686018427387904] is negative or too large");

  const ffi::Array<int64_t> dims{kStatic, int64_t{1} << 50};
  const ffi::Function vast = Make(Fail, nullptr, {}, {Spec("y", "float32", dims)}, {});
  CHECK_EQUAL(ErrorOf([&] { vast(); }),
              "MemoryError: `main`: output `y`: out of memory for 4503599627370496 bytes");
}

void TestKeepsItsOwnerAlive() {
  struct Owner {
    bool* dead;
    ~Owner() { *dead = true; }
  };
  bool dead = false;
  auto owner = std::make_shared<Owner>(Owner{&dead});
  dead = false;
  {
    const auto keep = ffi::Function::FromTyped([owner] {});
    owner.reset();
    const ffi::Array<int64_t> dims{kSymbol, 0, kSymbol, 1};
    const ffi::Function add = Make(AddFirst, nullptr, {Spec("x", "float32", dims)}, {}, {"n", "m"},
                                   Pair(kStatic, 0), {}, keep);
    CHECK(!dead, "the function lives");
  }
  CHECK(dead, "and then does not");
}

// Two kernels, the second without tiles.
int32_t TwoKernels(void** buffers, const int64_t* sizes, void*, void* context) {
  const auto nothing = [](void**, const int64_t*, void*, int64_t, int64_t) {};
  relax_rt2_parallel_for(context, nothing, buffers, sizes, 1, 1, 0);
  relax_rt2_parallel_for(context, nothing, buffers, sizes, 0, 1, 0);
  return 0;
}

void TestProfileIsOfTheLastCall() {
  int64_t durations_ns[] = {-1, -1, -1};
  relax_rt2_profile profile{durations_ns, 3, 0};
  const ffi::Function profiled =
      Make(TwoKernels, nullptr, {}, {}, {}, Pair(kStatic, 0), {}, nullptr, {}, {}, &profile);
  for (int i = 0; i < 2; ++i) {
    profiled();
    CHECK_EQUAL(profile.count, 2);
    CHECK(durations_ns[0] >= 0 && durations_ns[1] >= 0, "both are measured");
    CHECK_EQUAL(durations_ns[2], -1);
  }
}

// Not a test: what a call costs, printed with `executable_test --time`.
void Time() {
  std::vector<float> x{1};
  View input(x.data(), kFloat32, {1, 1});
  View output(x.data(), kFloat32, {1, 1});
  const ffi::Function add = MakeAddFirst();
  const auto measure = [](const char* what, const auto& call) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1'000'000; ++i) call();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    std::cout << what << ": " << time.count() * 1000 << " ns\n";
  };
  measure("one input, new output", [&] { add(&input.tensor); });
  std::vector<float> y(1);
  View separate(y.data(), kFloat32, {1, 1});
  measure("one input, given output", [&] { add(&input.tensor, &separate.tensor); });
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--time") return Time(), 0;
  TestAllocatesOutputs();
  TestEmptyTensors();
  TestInputsOfAnyLayout();
  TestOutputsOfTheCaller();
  TestOutputsThatShareMemory();
  TestDerivedSizesArenaAndConstants();
  TestCallsAtOnceHaveTheirOwnArenas();
  TestArgumentErrors();
  TestSolvesForSymbolsAndChecks();
  TestErrorsWhenMaking();
  TestFailuresOfThePrograms();
  TestKeepsItsOwnerAlive();
  TestProfileIsOfTheLastCall();
}
