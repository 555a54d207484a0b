package rules

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/spec"
)

type histories map[string][]Purchase

func (h histories) History(_ context.Context, ids []string) (all [][]Purchase, err error) {
	for _, id := range ids {
		if id == "bad" {
			return nil, errors.New("no server")
		}
		all = append(all, h[id])
	}
	return all, nil
}

// What was bought comes newest first, and is part of what the digest names.
func TestWithHistory(t *testing.T) {
	h := histories{"ada": {{"one", "1", 1, noon}, {"three", "3", 3, noon.Add(2 * time.Hour)}, {"two", "2", 2, noon.Add(time.Hour)}}}
	users := WithHistory(UnknownUsers(shopper), h)
	all, err := users.Lookup(t.Context(), []string{"ada", "eve"})
	if err != nil {
		t.Fatal(err)
	}
	var sales []string
	for _, p := range all[0].History() {
		sales = append(sales, p.Sale)
	}
	if got := strings.Join(sales, " "); got != "three two one" || len(all[1].History()) != 0 {
		t.Errorf("bought %s", got)
	}
	again, _ := users.Lookup(t.Context(), []string{"ada"})
	if again[0].Digest() != all[0].Digest() {
		t.Error("the same history has two digests")
	}
	h["ada"][0].Units++
	if changed, _ := users.Lookup(t.Context(), []string{"ada"}); changed[0].Digest() == all[0].Digest() {
		t.Error("two histories have one digest")
	}
	if all[1].Digest() == shopper.Unknown("eve").Digest() {
		t.Error("an empty history has the digest of none")
	}
	if _, err := users.Lookup(t.Context(), []string{"bad"}); err == nil || err.Error() != "look up purchases: no server" {
		t.Error(err)
	}
	s := mustCompile(t, declaration{Attributes: shopper, History: true, Rules: []spec.Rule{{Name: "only", Require: "history.units() < 6 && history[0].sale == 'three'"}}})
	if v := s.Decide(&Input{User: all[0], Now: noon}); v.Allowed() {
		t.Error("let in with 6 units")
	}
}

const exported = `{"format":1,"kind":"export","sale":"drop-1","uid":"0011223344556677","roots":["00"],"counts":{"shards":1,"slots":2,"claims":3,"sold":3},"saleLog":{"first":4,"slots":1,"root":"00"}}
{"claim":"0-1-0","sale":"drop-1","user":"ada","units":[1,2],"state":"sold","at":"2026-11-21T12:00:00Z","key":"k"}
{"claim":"0-2-0","sale":"drop-1","user":"ada","units":[3],"state":"sold","at":"2026-11-21T13:00:00Z","key":"l"}
{"claim":"0-3-0","sale":"drop-1","user":"eve","units":[4],"state":"refunded","at":"2026-11-21T13:00:00Z","key":"k"}
{"shard":0,"slot":0,"commit":"AAAA"}
{"shard":0,"slot":1,"commit":"AAAA"}
{"log":"sale","slot":4,"commit":"AAAA"}
`

func TestHistoryFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("drop-1.ndjson", exported)
	write("copy.ndjson", exported) // of the same run: it counts once
	write("drop-2.ndjson", strings.NewReplacer("drop-1", "drop-2", "0011", "0022", "2026-11-21", "2026-11-22").Replace(exported))
	h, err := OpenHistoryFiles([]string{filepath.Join(dir, "*.ndjson"), filepath.Join(dir, "none-*.ndjson")})
	if err != nil {
		t.Fatal(err)
	}
	all, err := WithHistory(UnknownUsers(shopper), h).Lookup(t.Context(), []string{"ada", "eve", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	got := all[0].History()
	if len(h.runs) != 2 || len(got) != 2 || got[0].Sale != "drop-2" || got[1] != (Purchase{"drop-1", "0011223344556677", 3, time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)}) {
		t.Errorf("%d runs, ada bought %v", len(h.runs), got)
	}
	if len(all[1].History())+len(all[2].History()) != 0 {
		t.Error("a refund, or nothing, counts as a purchase")
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":        {"", "its first line is not that of an export"},
		"another file": {"{\"users\":1}\n", "its first line is not that of an export"},
		"a later one":  {strings.Replace(exported, `"format":1`, `"format":2`, 1), "an export of format 2 cannot be read, only format 1"},
		"cut":          {exported[:300], "it ends in the middle of line 3"},
		"empty line":   {strings.Replace(exported, "\n", "\n\n", 1), "line 2: unexpected end of JSON input"},
		"no claim":     {strings.Replace(exported, "\n", "\n{}\n", 1), "line 2 is neither a claim nor a commit"},
		"a claim less": {exported[:strings.Index(exported, `{"claim":"0-2`)] + exported[strings.Index(exported, `{"claim":"0-3`):],
			"it is incomplete: its header counts 3 claims, 3 units sold and 3 commits, and there are 2, 2 and 3"},
		"a claim changed": {strings.Replace(exported, `"state":"sold"`, `"state":"held"`, 1), "3 units sold and 3 commits, and there are 3, 1 and 3"},
		"a commit less":   {strings.Replace(exported, `{"shard":0,"slot":1,"commit":"AAAA"}`+"\n", "", 1), "and there are 3, 3 and 2"},
		"no sale's log":   {strings.TrimSuffix(exported, `{"log":"sale","slot":4,"commit":"AAAA"}`+"\n"), "and there are 3, 3 and 2"},
	} {
		write("bad.ndjson", test.text)
		if _, err := OpenHistoryFiles([]string{filepath.Join(dir, "bad.ndjson")}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	// What is wrong with where a history is to be must not read as an empty one.
	for pattern, want := range map[string]string{
		filepath.Join(dir, "drop-9.ndjson"):        "drop-9.ndjson: there is no such export",
		filepath.Join(dir, `drop\-9.ndjson`):       "drop-9.ndjson: there is no such export",
		filepath.Join(dir, "copy.ndjson/*.ndjson"): "not a directory",
		filepath.Join(dir, "loop*", "*.ndjson"):    "too many levels of symbolic links",
	} {
		if _, err := OpenHistoryFiles([]string{pattern}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	// Of two exports of one run the newer counts, whatever their names.
	newer := strings.NewReplacer(`"slots":2,"claims":3,"sold":3`, `"slots":3,"claims":4,"sold":4`, `{"log"`,
		`{"claim":"0-4-0","sale":"drop-1","user":"zoe","units":[5],"state":"sold","at":"2026-11-21T14:00:00Z"}`+"\n"+`{"shard":0,"slot":2,"commit":"AAAA"}`+"\n"+`{"log"`).Replace(exported)
	for _, name := range []string{"a.live.ndjson", "z.live.ndjson"} {
		write(name, newer)
		h, err := OpenHistoryFiles([]string{filepath.Join(dir, "drop-1.ndjson"), filepath.Join(dir, "?.live.ndjson")})
		if err != nil || len(h.runs) != 1 || len(h.users["zoe"]) != 1 || h.users["ada"][0].Units != 3 {
			t.Errorf("%s: zoe bought %v, %v", name, h.users["zoe"], err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("other.ndjson", strings.Replace(exported, `"roots":["00"]`, `"roots":["01"]`, 1))
	if _, err := OpenHistoryFiles([]string{filepath.Join(dir, "[do]*.ndjson")}); err == nil || !strings.Contains(err.Error(), "it is another export of run 0011223344556677 than") {
		t.Errorf("two exports that differ: %v", err)
	}
	// An export is the file of the manifest beside it.
	write("drop-2.ndjson.sha256", strings.Repeat("0", 64)+"  drop-2.ndjson\n")
	if _, err := OpenHistoryFiles([]string{filepath.Join(dir, "drop-2.ndjson")}); err == nil || !strings.Contains(err.Error(), "one of the two was altered") {
		t.Errorf("an export that is not that of its manifest: %v", err)
	}
	write("drop-2.ndjson.sha256", "mine\n")
	if _, err := OpenHistoryFiles([]string{filepath.Join(dir, "drop-2.ndjson")}); err == nil || !strings.Contains(err.Error(), "is not a manifest of") {
		t.Errorf("a manifest that is none: %v", err)
	}
	some, none := filepath.Join(dir, "d*.ndjson"), filepath.Join(dir, "none", "*.ndjson")
	if got := MatchNothing([]string{some, none}); !slices.Equal(got, []string{none}) {
		t.Errorf("%q match nothing", got)
	}
	if _, err := OpenHistoryFiles([]string{"["}); err == nil {
		t.Error("a pattern that is none")
	}
}
