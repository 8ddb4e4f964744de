// The cache: what was stored comes back, what was damaged does not.
#include "runtime/Cache.h"
#include "runtime/BundleFormat.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

using namespace ds4;

namespace fs = std::filesystem;

namespace {

class CacheTest : public testing::Test {
protected:
  void SetUp() override {
    root = fs::path(testing::TempDir()) / "ds4_cache_test";
    fs::remove_all(root);
  }
  void TearDown() override { fs::remove_all(root); }

  void overwrite(const fs::path &path, std::string_view bytes) {
    ASSERT_TRUE(fs::exists(path)) << path;
    std::ofstream(path, std::ios::binary) << bytes;
  }

  fs::path root;
  const FileSet files = {{"plan.json", "{}"}, {"kernels/a.hip", "unit"}};
};

} // namespace

TEST_F(CacheTest, WhatWasStoredComesBack) {
  Cache cache(root);
  EXPECT_FALSE(cache.load("k1"));
  cache.store("k1", files);
  EXPECT_EQ(cache.load("k1"), files);
  EXPECT_FALSE(cache.load("k2"));
}

TEST_F(CacheTest, DamagedBlobIsDeletedAndStoredAgain) {
  Cache cache(root);
  cache.store("k1", files);
  fs::path blob = root / "blobs" / contentHash("unit");
  overwrite(blob, "Unit");
  EXPECT_FALSE(cache.load("k1"));
  EXPECT_FALSE(fs::exists(blob));
  EXPECT_FALSE(fs::exists(root / "keys/k1"));
  cache.store("k1", files);
  EXPECT_EQ(cache.load("k1"), files);
}

TEST_F(CacheTest, StoringRepairsABlobOfAnotherEntry) {
  Cache cache(root);
  cache.store("k1", files);
  overwrite(root / "blobs" / contentHash("unit"), "");
  cache.store("k2", {{"x", "unit"}});
  EXPECT_EQ(cache.load("k1"), files);
}

TEST_F(CacheTest, DamagedIndexIsDeleted) {
  Cache cache(root);
  for (std::string_view text : {"", "{", "[]", "{}", "{\"a\": 1}",
                                "{\"a\": \"../../../etc/hostname\"}"}) {
    cache.store("k1", files);
    overwrite(root / "keys/k1", text);
    EXPECT_FALSE(cache.load("k1")) << text;
    EXPECT_FALSE(fs::exists(root / "keys/k1")) << text;
  }
}

TEST_F(CacheTest, WithoutARootNothingIsKept) {
  Cache cache(std::nullopt);
  cache.store("k1", files);
  EXPECT_FALSE(cache.load("k1"));
}

TEST_F(CacheTest, UnwritableRootIsAnEmptyCache) {
  std::ofstream(root) << "a file where a folder should be";
  Cache cache(root);
  cache.store("k1", files);
  EXPECT_FALSE(cache.load("k1"));
}

TEST_F(CacheTest, WritersDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        Cache cache(root);
        cache.store("k1", files);
        std::optional<FileSet> loaded = cache.load("k1");
        EXPECT_EQ(loaded, files);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &entry : fs::directory_iterator(root / "blobs"))
    EXPECT_EQ(entry.path().filename().string().size(), 32u);
}
