// The small languages of Kubernetes: quantities, selectors, names, times, paths, YAML.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/json_path.h"
#include "api/kinds/label_selector.h"
#include "api/kinds/names.h"
#include "api/kinds/quantity.h"
#include "api/kinds/times.h"
#include "api/kinds/yaml.h"

namespace virtset::test {
namespace {

using namespace api;
using nlohmann::json;

TEST(Quantity, IsReadAsKubernetesReadsIt) {
  const struct {
    const char* text;
    std::int64_t value;
    std::int64_t milli;
  } cases[] = {{"0", 0, 0},
               {"128Mi", 134'217'728, 134'217'728'000},
               {"64M", 64'000'000, 64'000'000'000},
               {"1.5Gi", 1'610'612'736, 1'610'612'736'000},
               {"300m", 1, 300},
               {"0.5", 1, 500},
               {".5", 1, 500},
               {"5.", 5, 5'000},
               {"1k", 1'000, 1'000'000},
               {"1e3", 1'000, 1'000'000},
               {"1E3", 1'000, 1'000'000},
               {"1E", 1'000'000'000'000'000'000, INT64_MAX},
               {"12e-1", 2, 1'200},
               {"100n", 1, 1},
               {"-1", -1, -1'000},
               {"+7", 7, 7'000},
               {"0.0000000001", 1, 1},
               {"9999999999999999999999", INT64_MAX, INT64_MAX},
               {"16Ei", INT64_MAX, INT64_MAX}};
  for (const auto& [text, value, milli] : cases) {
    const auto quantity = Quantity::parse(text);
    ASSERT_TRUE(quantity) << text;
    EXPECT_EQ(quantity->value(), value) << text;
    EXPECT_EQ(quantity->milli_value(), milli) << text;
  }
  EXPECT_LT(*Quantity::parse("1G"), *Quantity::parse("1Gi"));
}

TEST(Quantity, WhatIsNoneIsRefused) {
  for (const char* text : {"", " ", "Mi", "1K", "1 Mi", "1mi", "1Mib", "--1", "1.2.3", "0x10", "1e",
                           "1e1000", "e3", "."}) {
    EXPECT_FALSE(Quantity::parse(text)) << text;
  }
}

TEST(LabelSelector, MatchesAsKubernetesDoes) {
  const json labels{{"app", "web"}, {"tier", "front"}, {"n", "7"}, {"empty", ""}};
  const struct {
    const char* selector;
    bool matches;
  } cases[] = {{"", true},
               {"app=web", true},
               {"app==web,tier=front", true},
               {"app=web,tier=back", false},
               {"app!=db", true},
               {"missing!=x", true},
               {"app", true},
               {"!app", false},
               {"!missing", true},
               {"app in (db, web)", true},
               {"app notin (db,web)", false},
               {"missing notin (a)", true},
               {"n>6", true},
               {"n<7", false},
               {"app>1", false},
               {"empty=", true},
               {"empty in ()", true},
               {" app = web , tier ", true},
               {"in in (in)", false}};
  for (const auto& [selector, matches] : cases) {
    EXPECT_EQ(LabelSelector::parse(selector).matches(labels), matches) << selector;
  }
}

TEST(LabelSelector, BadOnesAreRefused) {
  for (const char* selector : {"a=b,", ",", "a in b", "a in (b", "=b", "a=b=c", "a b", "!", "a>x",
                               "a(b)", "/x=1", "a=b c"}) {
    EXPECT_THROW(LabelSelector::parse(selector), BadSelector) << selector;
  }
}

TEST(LabelSelector, CanonicalTextIsSorted) {
  EXPECT_EQ(LabelSelector::from_object(json::parse(R"({"matchLabels":{"b":"2","a":"1"},
      "matchExpressions":[{"key":"c","operator":"In","values":["y","x"]},
                          {"key":"aa","operator":"DoesNotExist"},
                          {"key":"d","operator":"NotIn","values":["z"]},
                          {"key":"e","operator":"Exists"}]})"))
                .to_string(),
            "a=1,!aa,b=2,c in (x,y),d notin (z),e");
}

TEST(LabelSelector, NullMatchesNothingAndEmptyEverything) {
  EXPECT_FALSE(LabelSelector::from_object(nullptr).matches({{"a", "b"}}));
  EXPECT_TRUE(LabelSelector::from_object(json::object()).matches(nullptr));
}

TEST(Names, Rules) {
  EXPECT_FALSE(check_subdomain("a.b-c.d1"));
  EXPECT_FALSE(check_subdomain(std::string(70, 'a')));  // parts are not limited on their own
  for (const std::string& name : std::vector<std::string>{"", "A", "-a", "a-", "a..b", ".a", "a_b",
                                                          "a/b", std::string(254, 'a')}) {
    EXPECT_TRUE(check_subdomain(name)) << name;
  }
  EXPECT_FALSE(check_label_name(std::string(63, 'a')));
  EXPECT_TRUE(check_label_name(std::string(64, 'a')));
  EXPECT_TRUE(check_label_name("a.b"));
  EXPECT_FALSE(check_label_key("kubevirt.io/vmpool"));
  EXPECT_FALSE(check_label_key("A_b.c-D"));
  EXPECT_TRUE(check_label_key("a/b/c"));
  EXPECT_TRUE(check_label_key("/b"));
  EXPECT_FALSE(check_label_value(""));
  EXPECT_TRUE(check_label_value("a b"));
}

TEST(Names, GeneratedOnesAreCutAndUnique) {
  EXPECT_THAT(generate_name("web"), testing::MatchesRegex("web[bcdfghjklmnpqrstvwxz2456789]{5}"));
  EXPECT_EQ(generate_name(std::string(80, 'a')).size(), 63u);
  EXPECT_NE(generate_name("web"), generate_name("web"));
  EXPECT_NE(new_uuid(), new_uuid());
}

TEST(Times, BackAndForth) {
  const Time time = *parse_time("2026-01-02T03:04:05.123456Z");
  EXPECT_EQ(format_time(time), "2026-01-02T03:04:05Z");
  EXPECT_EQ(format_micro_time(time), "2026-01-02T03:04:05.123456Z");
  EXPECT_EQ(format_micro_time(*parse_time("2026-01-02T03:04:05Z")), "2026-01-02T03:04:05.000000Z");
  EXPECT_EQ(parse_time("2026-01-02T05:04:05+02:00"), parse_time("2026-01-02T03:04:05Z"));
  for (const char* text :
       {"", "2026", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-02T03:04:05",
        "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05+2", "x"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

TEST(Times, AgesAsKubectlPrintsThem) {
  const std::pair<long, const char*> cases[] = {
      {-3, "0s"},         {0, "0s"},           {119, "119s"},       {120, "2m"},
      {200, "3m20s"},     {660, "11m"},        {3 * 3600, "3h"},    {3 * 3600 + 300, "3h5m"},
      {10 * 3600, "10h"}, {49 * 3600, "2d1h"}, {10 * 86400, "10d"}, {800 * 86400, "2y70d"}};
  for (const auto& [seconds, text] : cases) {
    EXPECT_EQ(human_duration(std::chrono::seconds(seconds)), text) << seconds;
  }
}

TEST(JsonPath, FindsWhatColumnsNeed) {
  const json object = json::parse(R"({"a":{"b":[{"t":"x","v":1},{"t":"y","v":2}]},"n":null})");
  EXPECT_EQ(*JsonPath(".a.b[1].v").find(object), 2);
  EXPECT_EQ(*JsonPath(".a.b[?(@.t==\"x\")].v").find(object), 1);
  EXPECT_EQ(JsonPath(".a.b[2].v").find(object), nullptr);
  EXPECT_EQ(JsonPath(".a.c").find(object), nullptr);
  EXPECT_EQ(JsonPath(".n").find(object), nullptr);
  EXPECT_THROW(JsonPath("a[*]"), std::exception);
}

TEST(Yaml, ScalarsBecomeWhatKubectlMakesOfThem) {
  EXPECT_EQ(parse_yaml("a: 1\nb: -2\nc: 0x10\nd: 017\ne: 1.5\nf: true\ng: yes\nh: ~\ni:\nj: 'yes'\n"
                       "k: \"1\"\nl: 1_000\nm: 1e3\nn1: 12:30\no: 2026-01-01\np: 64M\nq: .inf"),
            json::parse(R"({"a":1,"b":-2,"c":16,"d":15,"e":1.5,"f":true,"g":true,"h":null,"i":null,
                            "j":"yes","k":"1","l":1000,"m":1000.0,"n1":"12:30","o":"2026-01-01",
                            "p":"64M","q":".inf"})"));
}

TEST(Yaml, AnchorsAndMergeKeys) {
  EXPECT_EQ(parse_yaml("a: &x {k: 1, l: 2}\nb: *x\nc:\n  l: 3\n  <<: *x"),
            json::parse(R"({"a":{"k":1,"l":2},"b":{"k":1,"l":2},"c":{"k":1,"l":3}})"));
}

TEST(Yaml, ErrorsNameTheLine) {
  for (const auto& [text, expected] :
       {std::pair{"a: 1\nb: ]", "line 2"},
        std::pair{"a: 1\na: 2", "line 2: the key \"a\" is given twice"},
        std::pair{"a: *none", "unknown alias"}, std::pair{"a: !!binary eA==", "tag"},
        std::pair{"? [a]\n: b", "a key must be a string"},
        std::pair{"a\n---\nb", "second document"}}) {
    try {
      parse_yaml(text);
      ADD_FAILURE() << text;
    } catch (const BadYaml& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(expected)) << text;
    }
  }
}

TEST(Yaml, WhatIsWrittenIsReadBackTheSame) {
  const json value =
      json::parse(R"({"s":["", "yes", "1", "~", "null", "a: b", "# x", "multi\nline\n",
      " lead", "trail ", "ünïcode", "- x", "{}", "\ttab", "'q'", "0x1", "1e3", "a\u0000b", "*x", "&x"],
      "n":[1,-2,1.5,true,null],"empty":{"o":{},"a":[]}})");
  EXPECT_EQ(parse_yaml(to_yaml(value)), value) << to_yaml(value);
  EXPECT_EQ(parse_yaml(to_yaml({{"<<", json::array()}})), (json{{"<<", json::array()}}));
}

TEST(Yaml, WhatOtherReadersTakeForSomethingElseIsQuoted) {
  for (const char* text : {"2026-11-21T21:35:36Z", "2001-01-01", ".inf", "-.INF", ".nan", "12:30",
                           "190:20:30", "=", "<<", "0x_", "1_000", "+.5", "10.0.0.1"}) {
    EXPECT_EQ(to_yaml({{"k", text}}), "k: \"" + std::string(text) + "\"\n");
  }
  for (const char* text : {"5Gi", "web-1", "v1", "kubevirt.io/v1", "x=y"}) {
    EXPECT_EQ(to_yaml({{"k", text}}), "k: " + std::string(text) + "\n");
  }
}

}  // namespace
}  // namespace virtset::test
