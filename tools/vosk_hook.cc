// Writes down what the recognizer in the wheel vosk computes, for tools/real_model_scores.py. It is loaded before the
// wheel's library and stands between its callers and three functions of the Kaldi inside. Records in the file that
// HOOK_LOG names: a letter, two int32, then numbers.
//   W ready count: changes of weights, as pairs of int32 and float, when so many frames are ready
//   G frame dim:   the ivector for a frame
//   C columns rows: the scores of a chunk
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <utility>
#include <vector>

namespace kaldi {

template <class Real> struct VectorBase {
  Real *data;
  int dim;
};

using Weights = std::vector<std::pair<int, float>>;

static void *Original(const char *name) {
  static void *library = dlopen(getenv("HOOK_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  return dlsym(library, name);
}

static FILE *Record(char kind, int first, int second) {
  static FILE *log = fopen(getenv("HOOK_LOG"), "wb");
  fwrite(&kind, 1, 1, log);
  fwrite(&first, 4, 1, log);
  fwrite(&second, 4, 1, log);
  return log;
}

struct OnlineIvectorFeature {
  void UpdateFrameWeights(const Weights &changes);
  void GetFrame(int frame, VectorBase<float> *ivector);
};

void OnlineIvectorFeature::UpdateFrameWeights(const Weights &changes) {
  static auto update = (void (*)(OnlineIvectorFeature *, const Weights &))Original(
      "_ZN5kaldi20OnlineIvectorFeature18UpdateFrameWeightsERKSt6vectorISt4pairIifESaIS3_EE");
  static auto ready = (int (*)(OnlineIvectorFeature *))Original("_ZNK5kaldi20OnlineIvectorFeature14NumFramesReadyEv");
  update(this, changes);
  FILE *log = Record('W', ready(this), changes.size());
  for (const auto &change : changes) {
    fwrite(&change.first, 4, 1, log);
    fwrite(&change.second, 4, 1, log);
  }
}

void OnlineIvectorFeature::GetFrame(int frame, VectorBase<float> *ivector) {
  static auto get = (void (*)(OnlineIvectorFeature *, int, VectorBase<float> *))Original(
      "_ZN5kaldi20OnlineIvectorFeature8GetFrameEiPNS_10VectorBaseIfEE");
  get(this, frame, ivector);
  fwrite(ivector->data, 4, ivector->dim, Record('G', frame, ivector->dim));
}

namespace nnet3 {

struct DecodableNnetLoopedOnlineBase {
  void *table;
  float *scores;  // a matrix
  int columns, rows, stride;
  void AdvanceChunk();
};

void DecodableNnetLoopedOnlineBase::AdvanceChunk() {
  static auto advance = (void (*)(DecodableNnetLoopedOnlineBase *))Original(
      "_ZN5kaldi5nnet329DecodableNnetLoopedOnlineBase12AdvanceChunkEv");
  advance(this);
  FILE *log = Record('C', columns, rows);
  for (int row = 0; row < rows; row++)
    fwrite(scores + (size_t)row * stride, 4, columns, log);
}

}  // namespace nnet3
}  // namespace kaldi
