package draw

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const testUID = "0123456789abcdef"

// above is the tree as RFC 6962 defines it, from above.
func above(leaves [][]byte) (d Digest) {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		l, r := above(leaves[:k]), above(leaves[k:])
		return sha256.Sum256(slices.Concat([]byte{1}, l[:], r[:]))
	}
}

func TestRoot(t *testing.T) {
	var labels []Digest
	var leaves [][]byte
	for n := range 70 {
		if got, want := Root(labels), above(leaves); got != want {
			t.Errorf("%d labels: the root is %v, from above it is %v", n, got, want)
		}
		label := Label(testUID, fmt.Sprint("user", n), "key")
		labels, leaves = append(labels, label), append(leaves, label[:])
	}
}

// The one vector that is written out, so that no change of the construction goes unseen:
// it was worked out with testdata/verify.py's functions.
func TestVector(t *testing.T) {
	link := Link(bytes.Repeat([]byte{7}, SecretLen))
	label := Label(testUID, "ada", "k-1")
	root := RootOf([]Tree{{1, Root([]Digest{label})}, {0, Root(nil)}})
	value := NewOrder(testUID, root, link, []byte{1, 2, 3}).Value(label)
	const want = "eb60bdee05596734335a93786236c2df6642b9f2730ff30e5242e6d4c1f3fec1 2beab9949dcd2796ebf1faef52b77746dd3fad0e1d0fc0c7db0fff65c7c59f0b " +
		"4cb11236a5906b34bd32561bcbf3ac51dce6ad69d79cf294e4151d84e1bc5652 c77f511bcac2248703311a316fcf5574ae0a032d8f0cad6054ae864be14820d8"
	if got := fmt.Sprint(Commitment(link), label, root, value); got != want {
		t.Errorf("commitment, label, root and value are\n%s\nand were\n%s", got, want)
	}
}

func TestLabelsOfOtherEntriesDiffer(t *testing.T) {
	seen := map[Digest]string{}
	for _, texts := range [][3]string{
		{"u", "ada", "k"}, {"u", "adak", ""}, {"u", "ad", "ak"}, {"ua", "da", "k"}, {"", "uada", "k"}, {"u", "", "adak"},
		{"u", "ada\x00", "k"}, {"u", "ada", "\x00k"}, {"u", "a", "da\x00k"},
	} {
		label := Label(texts[0], texts[1], texts[2])
		if other, ok := seen[label]; ok {
			t.Errorf("%q has the label of %s", texts, other)
		}
		seen[label] = fmt.Sprintf("%q", texts)
	}
}

func TestLowest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var all []Entry
		most := rnd.IntN(40)
		merged := NewLowest(int64(most))
		for shard := range 1 + rnd.IntN(5) {
			part := NewLowest(int64(most))
			for range rnd.IntN(30) {
				e := Entry{Shard: shard, Slot: uint64(len(all))}
				e.Value[0] = byte(rnd.IntN(20)) // some are the same, and then the label decides
				e.Label[3], e.Label[4] = byte(rnd.IntN(256)), byte(len(all))
				all = append(all, e)
				part.Add(e)
			}
			for _, e := range part.Ranked() {
				merged.Add(e)
			}
		}
		slices.SortFunc(all, Entry.Compare)
		if got, want := merged.Ranked(), all[:min(most, len(all))]; !slices.Equal(got, want) {
			t.Fatalf("the %d lowest are\n%v\nnot\n%v", most, want, got)
		}
	}
}

// list is an export as a test changes it: its header's record, and its lines.
type list struct {
	record Record
	lines  []Line
}

// newList draws a sale with three shards, units for four, ranks for seven; one award has
// lapsed and its substitute followed.
func newList(beacon *Beacon, value []byte) *list {
	l := &list{record: Record{Closes: "2026-11-27T18:00:00Z", Beacon: beacon, Winners: 4, Lapsed: 1, Ranks: 7, Ended: true, Shards: make([]Tree, 3)}}
	labels := make([][]Digest, 3)
	for i := range 12 {
		shard := i / 5
		line := Line{
			Claim: fmt.Sprintf("%d-%d-%d", shard, 3+i/2, i%2), User: fmt.Sprint("user", i), Key: fmt.Sprint("k", i),
			State: StateEntered, At: "2026-11-27T17:59:59.999999Z",
		}
		line.Label = Label(testUID, line.User, line.Key)
		labels[shard] = append(labels[shard], line.Label)
		l.lines = append(l.lines, line)
	}
	for i := range labels {
		l.record.Shards[i] = Tree{int64(len(labels[i])), Root(labels[i])}
	}
	root := RootOf(l.record.Shards)
	link := Link(bytes.Repeat([]byte{9}, SecretLen))
	l.record.Root, l.record.Link, l.record.Commitment = &root, &link, Commitment(link)
	order := NewOrder(testUID, root, link, value)
	for i, line := range l.sorted(order) {
		if i < 7 {
			line.Rank = int64(i + 1)
		}
		if i < 5 {
			line.State = "sold"
		}
		if i == 2 {
			line.State = "expired"
		}
	}
	return l
}

func (l *list) sorted(order *Order) []*Line {
	all := make([]*Line, len(l.lines))
	for i := range all {
		all[i] = &l.lines[i]
	}
	slices.SortFunc(all, func(a, b *Line) int {
		return Entry{Value: order.Value(a.Label), Label: a.Label}.Compare(Entry{Value: order.Value(b.Label), Label: b.Label})
	})
	return all
}

func (l *list) ranked(rank int64) *Line {
	return &l.lines[slices.IndexFunc(l.lines, func(line Line) bool { return line.Rank == rank })]
}

func (l *list) export(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.Encode(map[string]any{"export": 1, "sale": "trainers", "uid": testUID, "draw": l.record})
	for _, line := range l.lines {
		if err := lines.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	lines.Encode(map[string]any{"shard": 0, "slot": 0, "commit": []byte("not read")})
	return b.Bytes()
}

var drand = Beacon{Name: "drand quicknet", Round: "12345", Fallback: "none", Value: "010203"}

func TestVerify(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*list)
		beacon  []byte // what who verifies knows of the beacon
		problem string // "": there is none
		python  bool   // the verifier in Python finds it too
	}{
		"nothing": {python: true},
		"an entry after the close": {python: true, problem: "shard 2: there are 3 entries, and at the close there were 2", change: func(l *list) {
			late := Line{Claim: "2-20-0", User: "eve", Key: "k", State: StateEntered, At: "2026-11-27T18:00:00Z", Label: Label(testUID, "eve", "k")}
			l.lines = append(l.lines, late)
		}},
		"an entry at the close that the root has": {problem: "claim 2-8-1: it was entered at 2026-11-27T18:00:00Z, and the sale closed at", change: func(l *list) {
			l.lines[11].At = "2026-11-27T18:00:00Z"
		}},
		"an entry removed": {python: true, problem: "shard 1: there are 4 entries, and at the close there were 5", change: func(l *list) {
			l.lines = slices.Delete(l.lines, 6, 7)
		}},
		"an entry exchanged": {python: true, problem: "shard 0: the root of its entries is", change: func(l *list) {
			l.lines[1].User, l.lines[1].Label = "eve", Label(testUID, "eve", l.lines[1].Key)
		}},
		"roots of other entries": {python: true, problem: "header: draw.root is not that of draw.shards", change: func(l *list) {
			l.record.Shards[2] = Tree{1, Root([]Digest{l.lines[11].Label})}
			l.lines = slices.Delete(l.lines, 10, 11)
		}},
		"another secret": {python: true, problem: "header: SHA-256 of draw.link is not draw.commitment", change: func(l *list) {
			link := Link([]byte("another"))
			l.record.Link = &link
		}},
		"a value of another round": {python: true, problem: "and the export says", change: func(l *list) {
			l.record.Beacon.Value = "010204"
		}},
		"a value of another round, and the order by it": {beacon: []byte{1, 2, 3}, problem: "it is the value of another round", change: func(l *list) {
			*l = *newList(&Beacon{Name: "drand quicknet", Round: "12345", Fallback: "none", Value: "010204"}, []byte{1, 2, 4})
		}},
		"a value left out": {beacon: []byte{1, 2, 3}, problem: "has a value, and the draw has left it out", change: func(l *list) {
			*l = *newList(&Beacon{Name: "drand quicknet", Round: "12345", Fallback: "secret"}, nil)
		}},
		"no value and no fallback": {problem: "the sale declares no other order without one", change: func(l *list) {
			*l = *newList(&Beacon{Name: "drand quicknet", Round: "12345", Fallback: "none"}, nil)
		}},
		"no beacon was declared": {beacon: []byte{1, 2, 3}, problem: "the sale has declared no beacon", change: func(l *list) {
			*l = *newList(nil, nil)
		}},
		"a winner skipped": {python: true, problem: "it has rank 2 and was awarded nothing, and there were 4 units and 1 awards that lapsed: a winner was skipped", change: func(l *list) {
			l.ranked(2).State = StateEntered
		}},
		"two ranks exchanged": {python: true, problem: "in the order and should have rank 6, and the export says 7", change: func(l *list) {
			a, b := l.ranked(6), l.ranked(7)
			a.Rank, b.Rank = b.Rank, a.Rank
		}},
		"a substitute too many": {python: true, problem: "it was awarded a unit at rank 6, and there were 4 units and 1 awards that lapsed", change: func(l *list) {
			l.ranked(6).State = "held"
		}},
		"a substitute left out of the ranks": {python: true, problem: "should have rank 7, and the export says none", change: func(l *list) {
			l.ranked(7).Rank = 0
		}},
		"a label that is not of its user": {python: true, problem: "claim 0-3-1: its label is not that of its user and key", change: func(l *list) {
			l.lines[1].User, l.lines[1].Key = "user1k", "1" // the same bytes, if nothing said where a text ends
		}},
		"an entry twice": {problem: "claim 1-5-1: it is out of order, or there twice", change: func(l *list) {
			l.lines[6] = l.lines[5]
		}},
		"without users": {python: true, change: func(l *list) {
			for i := range l.lines {
				l.lines[i].User, l.lines[i].Key = "", ""
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			beacon := drand
			l := newList(&beacon, []byte{1, 2, 3})
			if test.change != nil {
				test.change(l)
			}
			export := l.export(t)
			r, err := Verify(bytes.NewReader(export), Options{Beacon: test.beacon})
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(r.Problems, "\n")
			if r.OK != (test.problem == "") || len(r.Problems) > 0 == r.OK || !strings.Contains(said, test.problem) {
				t.Errorf("the report says ok: %v\n%s\nnot: %s", r.OK, said, test.problem)
			}
			if test.python {
				python(t, export, test.problem == "")
			}
		})
	}
}

// python lets the verifier in Python judge an export.
func python(t *testing.T, export []byte, ok bool, args ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("there is no python3")
	case err != nil:
		t.Skip("there is no python3")
	}
	file := filepath.Join(t.TempDir(), "export.ndjson")
	if err := os.WriteFile(file, export, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(python, append([]string{"testdata/verify.py", file}, args...)...).CombinedOutput()
	if (err == nil) != ok || !ok && bytes.Contains(said, []byte("Traceback")) {
		t.Errorf("the verifier in Python says: %v, %s", err, said)
	}
	return string(said)
}

var update = flag.Bool("update", false, "write testdata/export.ndjson, which docs/draw.md verifies")

func TestExportOfThePage(t *testing.T) {
	const path = "testdata/export.ndjson"
	beacon := drand
	export := newList(&beacon, []byte{1, 2, 3}).export(t)
	if *update {
		if err := os.WriteFile(path, export, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, export) {
		t.Errorf("%s is not what it was made from (%v): go test ./draw -update", path, err)
	}
}

func TestVerifyTellsARank(t *testing.T) {
	beacon := drand
	l := newList(&beacon, []byte{1, 2, 3})
	sorted := l.sorted(NewOrder(testUID, *l.record.Root, *l.record.Link, []byte{1, 2, 3}))
	for i, want := range sorted {
		r, err := Verify(bytes.NewReader(l.export(t)), Options{User: want.User})
		if err != nil || r.Rank != int64(i+1) || r.Claim != want.Claim || r.State != want.State {
			t.Errorf("%s has rank %d, claim %s, %s (%v), not %d, %s, %s", want.User, r.Rank, r.Claim, r.State, err, i+1, want.Claim, want.State)
		}
	}
	if said := python(t, l.export(t), true, sorted[8].User); !strings.HasPrefix(said, "rank 9: entered\n") {
		t.Errorf("the verifier in Python says %q", said)
	}
	// In a list without users, whoever knows the request's key finds the entry.
	user, key := sorted[3].User, sorted[3].Key
	for i := range l.lines {
		l.lines[i].User, l.lines[i].Key = "", ""
	}
	for _, o := range []Options{{User: user, Key: key}, {User: user, Key: "another"}} {
		want := int64(0)
		if o.Key == key {
			want = 4
		}
		if r, err := Verify(bytes.NewReader(l.export(t)), o); err != nil || r.Rank != want {
			t.Errorf("%s with key %q has rank %d (%v), not %d", o.User, o.Key, r.Rank, err, want)
		}
	}
}

func TestVerifyBeforeTheDraw(t *testing.T) {
	l := newList(nil, nil)
	l.record.Link, l.record.Ranks = nil, 0
	for i := range l.lines {
		l.lines[i].State, l.lines[i].Rank = StateEntered, 0
	}
	if r, err := Verify(bytes.NewReader(l.export(t)), Options{}); err != nil || !r.OK || r.Revealed {
		t.Errorf("before it is revealed the report is %+v, %v", r, err)
	}
	l.lines[3].State = "sold"
	if r, _ := Verify(bytes.NewReader(l.export(t)), Options{}); r.OK || !strings.Contains(r.Problems[0], "claim 0-4-1: it has a rank or a unit") {
		t.Errorf("an award before the secret was revealed: %+v", r)
	}
}

func TestVerifyWhatIsNoExport(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "line 1: EOF",
		"{}\n":                             "line 1: " + ErrNoDraw.Error(),
		"never\n":                          "line 1: an export begins with a header",
		`{"draw":{"closesAt":"x"}}` + "\n": "line 1: draw.closesAt",
		`{"draw":{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":`:                "line 2: it ends in the middle",
		`{"draw":{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"0-u3"}` + "\n":  `line 2: "0-u3" is not the name of a claim`,
		`{"draw":{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"0-3-0"}` + "\n": "line 2: claim 0-3-0: parsing time",
		`{"draw":{"closesAt":"2026-11-27T18:00:00Z","root":"00"}}` + "\n":                  `is not a digest of 64 hex digits`,
	} {
		if _, err := Verify(strings.NewReader(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}
