// Durability: what was acknowledged survives anything, what was not is there whole or not at all.

#include "store/sqlite_committer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "store/errors.h"
#include "tests/fakes/power_cut_vfs.h"

namespace virtset::test {
namespace {

using store::Contents;
using store::Object;
using store::Row;
using store::SqliteCommitter;
using testing::SizeIs;

Row row(const std::string& name, store::Revision revision, const std::string& text = "{}",
        Row::Operation operation = Row::Operation::put) {
  return {operation,
          std::make_shared<const Object>(store::Key{"g", "K", "ns", name}, "uid-" + name, revision,
                                         text, std::make_shared<store::RecentDocuments>(1))};
}

// Null if it was acknowledged.
std::exception_ptr commit(SqliteCommitter& committer, std::vector<Row> batch) {
  std::promise<std::exception_ptr> result;
  committer.commit(std::move(batch), [&](std::exception_ptr error) { result.set_value(error); });
  return result.get_future().get();
}

class SqliteCommitterTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/virtset-store-XXXXXX";
    directory_ = mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return (directory_ / "db").string(); }
  std::filesystem::path directory_;
};

TEST_F(SqliteCommitterTest, KeepsEverythingOverARestart) {
  std::string installation;
  {
    SqliteCommitter committer(path());
    installation = committer.load().installation;
    EXPECT_EQ(commit(committer, {row("a", 1, "{\"x\":1}"), row("b", 2)}), nullptr);
    EXPECT_EQ(
        commit(committer, {row("a", 3, "{\"x\":2}"), row("b", 4, "", Row::Operation::remove)}),
        nullptr);
  }
  SqliteCommitter committer(path());
  const Contents contents = committer.load();
  ASSERT_THAT(contents.entries, SizeIs(1));
  EXPECT_EQ(contents.entries[0].key.name, "a");
  EXPECT_EQ(contents.entries[0].uid, "uid-a");
  EXPECT_EQ(contents.entries[0].revision, 3);
  EXPECT_EQ(contents.entries[0].text, "{\"x\":2}");
  // The revision of a deletion is not used again either.
  EXPECT_EQ(contents.revision, 4);
  EXPECT_EQ(contents.installation, installation);
  EXPECT_THAT(installation, testing::MatchesRegex(
                                "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST_F(SqliteCommitterTest, ListsInTheOrderOfKeys) {
  SqliteCommitter committer(path());
  commit(committer, {row("b", 1), row("a-1", 2), row("a", 3), row("B", 4)});
  std::vector<std::string> names;
  for (const auto& entry : committer.load().entries) names.push_back(entry.key.name);
  EXPECT_THAT(names, testing::ElementsAre("B", "a", "a-1", "b"));
}

TEST_F(SqliteCommitterTest, DatabaseOfANewerVersionIsRefused) {
  { SqliteCommitter committer(path()); }
  {
    store::Database database(path());
    database.execute("PRAGMA user_version=99");
  }
  try {
    SqliteCommitter committer(path());
    FAIL() << "it was opened";
  } catch (const store::OpenFailed& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("version 99"));
  }
}

TEST_F(SqliteCommitterTest, FileThatIsNoDatabaseIsRefused) {
  FILE* file = fopen(path().c_str(), "w");
  fputs("certainly not a database, but long enough to look like the header of one", file);
  fclose(file);
  EXPECT_THROW(SqliteCommitter committer(path()), store::OpenFailed);
}

TEST_F(SqliteCommitterTest, FreePagesAreGivenBack) {
  SqliteCommitter committer(path());
  const std::string big(10'000, 'x');
  std::vector<Row> put, remove;
  for (int i = 0; i < 1'000; ++i) {
    put.push_back(row("n" + std::to_string(i), i + 1, big));
    remove.push_back(row("n" + std::to_string(i), i + 2'000, "", Row::Operation::remove));
  }
  EXPECT_EQ(commit(committer, put), nullptr);
  EXPECT_EQ(commit(committer, remove), nullptr);
  // A few at a time, with each commit.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(commit(committer, {row("x", 5'000 + i)}), nullptr);
  store::Database database(path());
  database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_LT(std::filesystem::file_size(path()), 6u << 20);
}

TEST_F(SqliteCommitterTest, FullDiskFailsTheBatchAndNothingElse) {
  PowerCutDisk disk("full");
  SqliteCommitter committer("db", disk.name());
  EXPECT_EQ(commit(committer, {row("a", 1)}), nullptr);
  disk.fill(true);
  try {
    std::rethrow_exception(commit(committer, {row("b", 2), row("c", 3)}));
  } catch (const store::CommitFailed& error) {
    EXPECT_TRUE(error.disk_full()) << error.what();
  }
  disk.fill(false);
  EXPECT_EQ(commit(committer, {row("d", 4)}), nullptr);
  std::vector<std::string> names;
  for (const auto& entry : committer.load().entries) names.push_back(entry.key.name);
  EXPECT_THAT(names, testing::ElementsAre("a", "d"));
}

// The work of a life: puts, replacements and removals, in batches of several rows. Returns how many
// batches were acknowledged.
int live(SqliteCommitter& committer) {
  store::Revision revision = 0;
  for (int batch = 0; batch < 12; ++batch) {
    std::vector<Row> rows;
    const std::string text(static_cast<std::size_t>(500 + 700 * batch), 'x');
    rows.push_back(row("even", ++revision, text + std::to_string(batch)));
    rows.push_back(row("odd", ++revision, text + std::to_string(batch)));
    rows.push_back(row("n" + std::to_string(batch), ++revision, text));
    if (batch > 3)
      rows.push_back(row("n" + std::to_string(batch - 3), ++revision, "", Row::Operation::remove));
    if (commit(committer, std::move(rows))) return batch;
  }
  return 12;
}

// What must be there after so many acknowledged batches.
void check(const Contents& contents, int acknowledged, const std::string& when) {
  std::map<std::string, std::string> texts;
  for (const auto& entry : contents.entries) texts[entry.key.name] = entry.text;
  // The one that was under way may be there too: whole.
  const auto last = [&](const std::string& name) {
    return texts.contains(name) ? std::stoi(texts[name].substr(texts[name].find_last_of('x') + 1))
                                : -1;
  };
  EXPECT_GE(last("even"), acknowledged - 1) << when;
  EXPECT_LE(last("even"), acknowledged) << when;
  EXPECT_EQ(last("even"), last("odd")) << when << ": half a transaction";
  const int batches = last("even") + 1;
  for (int batch = 0; batch < batches; ++batch) {
    const bool removed = batch >= 1 && batch + 3 < batches && batch + 3 > 3;
    EXPECT_EQ(texts.contains("n" + std::to_string(batch)), !removed) << when << ", n" << batch;
  }
  store::Revision revision = 0;
  for (int batch = 0; batch < batches; ++batch) revision += batch > 3 ? 4 : 3;
  EXPECT_EQ(contents.revision, revision) << when;
}

TEST(PowerCut, AtAnyWriteNothingAcknowledgedIsLost) {
  int total = 0;
  {
    PowerCutDisk disk("measure");
    SqliteCommitter committer("db", disk.name());
    ASSERT_EQ(live(committer), 12);
    total = disk.operations();
  }
  ASSERT_GT(total, 50);
  for (int cut = 0; cut <= total && !testing::Test::HasFailure(); ++cut) {
    for (unsigned seed = 0; seed < 3; ++seed) {
      const std::string when = "cut after " + std::to_string(cut) + " of " + std::to_string(total) +
                               ", seed " + std::to_string(seed);
      PowerCutDisk disk("cut");
      disk.cut_after(cut);
      int acknowledged = 0;
      try {
        SqliteCommitter committer("db", disk.name());
        acknowledged = live(committer);
      } catch (const store::OpenFailed&) {
        // The power went while the database was made.
      }
      disk.restart(seed);
      SqliteCommitter committer("db", disk.name());
      check(committer.load(), acknowledged, when);
      EXPECT_EQ(commit(committer, {row("after", 1'000)}), nullptr) << when;
    }
  }
}

}  // namespace
}  // namespace virtset::test
