package draw

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
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
	const committed = "eedcf9ceb3eb092dc1cff8efd5a65919a3cfc94329d6cee26fb6f4ca9bcc9062"
	terms := Terms{Closes: "2026-11-27T18:00:00Z", Substitutes: 50, Beacon: &Beacon{Name: "drand quicknet", Round: "12345", Fallback: "none", Value: "010203"}}
	if got := fmt.Sprint(Digest(sha256.Sum256(link[:])), label, root, value); got != want {
		t.Errorf("commitment, label, root and value are\n%s\nand were\n%s", got, want)
	}
	if got := terms.Commitment(testUID, link).String(); got != committed {
		t.Errorf("the commitment with the terms is %s, and was %s", got, committed)
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
	rnd, order := rand.New(rand.NewPCG(1, 2)), NewOrder(testUID, Digest{}, Digest{}, nil)
	for range 300 {
		var all, merged []Entry
		most := rnd.IntN(40)
		for shard := range 1 + rnd.IntN(5) {
			var part []Entry
			for range rnd.IntN(30) {
				e := Entry{Shard: shard, Slot: uint64(len(all)), Label: Digest{3: byte(rnd.IntN(256)), 4: byte(len(all))}}
				part = append(part, e)
				e.Value = order.Value(e.Label)
				all = append(all, e)
			}
			merged = append(merged, order.Lowest(part, int64(most))...)
		}
		slices.SortFunc(all, Entry.Compare)
		if got, want := order.Lowest(merged, int64(most)), all[:min(most, len(all))]; !slices.Equal(got, want) {
			t.Fatalf("the %d lowest are\n%v\nnot\n%v", most, want, got)
		}
	}
	same := Digest{1}
	if (Entry{Value: same, Label: Digest{2}}).Compare(Entry{Value: same, Label: Digest{3}}) >= 0 {
		t.Error("of two entries with the same value, the one with the lower label is not ranked first")
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
	l := &list{record: Record{
		Published: Published{Beacon: beacon, Substitutes: 3, Winners: 4, Lapsed: 1, Ranks: 7},
		Closes:    "2026-11-27T18:00:00Z", Stock: 4, Reach: 5, Ended: true, Shards: make([]Tree, 3),
	}}
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
	l.record.Root, l.record.Link, l.record.CommittedCloses = &root, &link, l.record.Closes
	l.commit()
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

// commit commits to the record as it is.
func (l *list) commit() {
	r := &l.record
	r.Commitment = Terms{Closes: r.CommittedCloses, Substitutes: r.Substitutes, Beacon: r.Beacon}.Commitment(testUID, *r.Link)
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

// keyInBase64 has the key of the second line stand in base64.
func (l *list) keyInBase64(key string) {
	l.lines[1].Key, l.lines[1].KeyBase64 = "", []byte(key)
}

// drawAgain publishes the lines as they are, and draws them.
func (l *list) drawAgain() {
	labels := make([][]Digest, len(l.record.Shards))
	for i := range l.lines {
		line := &l.lines[i]
		place, _ := parseClaim(line.Claim)
		labels[place.Shard] = append(labels[place.Shard], line.Label)
	}
	for i := range labels {
		l.record.Shards[i] = Tree{int64(len(labels[i])), Root(labels[i])}
	}
	root := RootOf(l.record.Shards)
	l.record.Root = &root
	value, err := hex.DecodeString(l.record.Beacon.Value)
	if err != nil {
		panic(err)
	}
	for i, line := range l.sorted(NewOrder(testUID, root, *l.record.Link, value)) {
		line.Rank, line.State = 0, StateEntered
		switch {
		case i == 2:
			line.Rank, line.State = 3, stateExpired
		case i < 5:
			line.Rank, line.State = int64(i+1), stateSold
		case i < 7:
			line.Rank = int64(i + 1)
		}
	}
}

func (l *list) ranked(rank int64) *Line {
	return &l.lines[slices.IndexFunc(l.lines, func(line Line) bool { return line.Rank == rank })]
}

func (l *list) export(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.Encode(map[string]any{"format": 1, "kind": "export", "sale": "trainers", "uid": testUID, "draw": l.record})
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
		"another secret": {python: true, problem: "header: draw.commitment is not that of draw.link, committedClosesAt, substitutes and beacon", change: func(l *list) {
			link := Link([]byte("another"))
			l.record.Link = &link
		}},
		"another round than was committed to": {python: true, problem: "header: draw.commitment is not that of draw.link", change: func(l *list) {
			l.record.Beacon.Round = "12346"
		}},
		"another beacon than was committed to": {python: true, problem: "header: draw.commitment is not that of draw.link", change: func(l *list) {
			l.record.Beacon.Name = "drand"
		}},
		"another fallback than was committed to": {python: true, problem: "header: draw.commitment is not that of draw.link", change: func(l *list) {
			l.record.Beacon.Fallback = "secret"
		}},
		"more substitutes than were committed to": {python: true, problem: "header: draw.commitment is not that of draw.link", change: func(l *list) {
			l.record.Substitutes, l.record.Ranks = 4, 8
			l.sorted(NewOrder(testUID, *l.record.Root, *l.record.Link, []byte{1, 2, 3}))[7].Rank = 8
		}},
		"another end than was committed to": {python: true, problem: "header: draw.commitment is not that of draw.link", change: func(l *list) {
			l.record.CommittedCloses, l.record.Closes = "2026-11-27T18:00:01Z", "2026-11-27T18:00:01Z"
		}},
		"a later end, with a beacon": {python: true, problem: "header: draw.closesAt is 2026-11-27T18:00:01Z, and 2026-11-27T18:00:00Z was committed to", change: func(l *list) {
			l.record.Closes = "2026-11-27T18:00:01Z"
		}},
		"a later end, without a beacon": {python: true, change: func(l *list) {
			*l = *newList(nil, nil)
			l.record.Closes = "2026-11-27T18:00:01Z"
		}},
		"the terms left out": {python: true, problem: "header: draw.commitment is not that of draw.link", change: func(l *list) {
			l.record.CommittedCloses = ""
		}},
		"a value of another round": {python: true, problem: "but the export has", change: func(l *list) {
			l.record.Beacon.Value = "010204"
		}},
		"a value of another round, and the order by it": {beacon: []byte{1, 2, 3}, problem: "it is the value of another round", change: func(l *list) {
			*l = *newList(&Beacon{Name: "drand quicknet", Round: "12345", Fallback: "none", Value: "010204"}, []byte{1, 2, 4})
		}},
		"a value left out": {beacon: []byte{1, 2, 3}, problem: "has a value, but the draw ignores it", change: func(l *list) {
			*l = *newList(&Beacon{Name: "drand quicknet", Round: "12345", Fallback: "secret"}, nil)
		}},
		"no value and no fallback": {problem: "the sale declares no fallback", change: func(l *list) {
			*l = *newList(&Beacon{Name: "drand quicknet", Round: "12345", Fallback: "none"}, nil)
		}},
		"no beacon was declared": {beacon: []byte{1, 2, 3}, problem: "the sale declares no beacon", change: func(l *list) {
			*l = *newList(nil, nil)
		}},
		"a winner skipped": {python: true, problem: "it has rank 2 and no award, although ranks up to 5 win a unit: a winner was skipped, or the sale was closed before", change: func(l *list) {
			l.ranked(2).State = StateEntered
		}},
		"two ranks exchanged": {python: true, problem: "in the order and should have rank 6, but the export has 7", change: func(l *list) {
			a, b := l.ranked(6), l.ranked(7)
			a.Rank, b.Rank = b.Rank, a.Rank
		}},
		"a substitute too many": {python: true, problem: "it was awarded a unit at rank 6, and there were 4 units and 1 awards that lapsed: only ranks up to 5 could have one", change: func(l *list) {
			l.ranked(6).State = "held"
		}},
		"a substitute left out of the ranks": {python: true, problem: "should have rank 7, but the export has none", change: func(l *list) {
			l.ranked(7).Rank = 0
		}},
		"a label that is not of its user": {python: true, problem: "claim 0-3-1: its label is not that of its user and key", change: func(l *list) {
			l.lines[1].User, l.lines[1].Key = "user1k", "1" // the same bytes, if nothing said where a text ends
		}},
		"an entry twice": {problem: "claim 1-5-1: it is out of order or repeated", change: func(l *list) {
			l.lines[6] = l.lines[5]
		}},
		"without users": {python: true, change: func(l *list) {
			for i := range l.lines {
				l.lines[i].User, l.lines[i].Key = "", ""
			}
		}},
		"without keys": {python: true, change: func(l *list) {
			for i := range l.lines {
				l.lines[i].Key = ""
			}
		}},
		"a key that is no text": {python: true, change: func(l *list) { l.keyInBase64(l.lines[1].Key) }},
		"a key that is no text, and another": {python: true, problem: "claim 0-3-1: its label is not that of its user and key", change: func(l *list) {
			l.keyInBase64("another")
		}},
		"fewer ranks than substitutes": {python: true, problem: "header: draw.ranks is 5, and 12 entries, a stock of 4 and 3 substitutes make 7 ranks", change: func(l *list) {
			l.ranked(6).Rank, l.ranked(7).Rank, l.record.Ranks = 0, 0, 5
		}},
		"fewer ranks, and it has not ended": {python: true, problem: "header: draw.ranks is 5, and 12 entries", change: func(l *list) {
			l.ranked(6).Rank, l.ranked(7).Rank, l.record.Ranks, l.record.Ended = 0, 0, 5, false
		}},
		"no ranks and no awards, and it has ended": {python: true, problem: "header: draw.ranks is 0, 7 were to be published, and nothing was awarded: ranks were left out, or the sale was closed before", change: func(l *list) {
			for i := range l.lines {
				l.lines[i].Rank, l.lines[i].State = 0, StateEntered
			}
			l.record.Ranks, l.record.Lapsed = 0, 0
		}},
		"more ranks than substitutes": {python: true, problem: "header: draw.ranks is 7, and 12 entries, a stock of 4 and 2 substitutes make 6 ranks", change: func(l *list) {
			l.record.Substitutes = 2
			l.commit()
		}},
		"ranks for all, and more substitutes": {python: true, change: func(l *list) {
			l.record.Substitutes, l.record.Ranks = 1<<63-1, 12
			l.commit()
			for i, line := range l.sorted(NewOrder(testUID, *l.record.Root, *l.record.Link, []byte{1, 2, 3})) {
				line.Rank = int64(i + 1)
			}
		}},
		"an award that lapsed after the sale was closed for good": {python: true, change: func(l *list) {
			l.ranked(5).State, l.record.Lapsed = "cancelled", 2
		}},
		"more reach than units and awards that lapsed": {python: true, problem: "header: draw.reach is 6, but there were 4 units and 1 lapsed awards", change: func(l *list) {
			l.record.Reach = 6
		}},
		"oversold, and said to have lapsed": {python: true, problem: "header: draw.lapsed is 2, and 1 entries are expired, cancelled or refunded", change: func(l *list) {
			l.ranked(6).State, l.record.Reach, l.record.Lapsed = "sold", 6, 2
		}},
		"oversold": {python: true, problem: "header: draw.winners is 4, and 5 entries are sold or held: more than there are units", change: func(l *list) {
			l.ranked(3).State = "held"
			l.record.Lapsed = 0
		}},
		"oversold, and it has not ended": {python: true, problem: "header: draw.winners is 4, and 5 entries are sold or held", change: func(l *list) {
			l.ranked(3).State = "held"
			l.record.Lapsed, l.record.Ended = 0, false
		}},
		"lapsed more often than is said": {python: true, problem: "header: draw.lapsed is 0, and 1 entries are expired", change: func(l *list) {
			l.record.Lapsed, l.record.Reach, l.record.Ended = 0, 4, false
		}},
		"a state that is unknown": {python: true, problem: `an entry cannot be in the state "won"`, change: func(l *list) {
			l.ranked(2).State = "won"
		}},
		"no state": {python: true, problem: `an entry cannot be in the state ""`, change: func(l *list) {
			l.ranked(7).State = ""
		}},
		"an award without a rank": {python: true, problem: "it was awarded a unit, but only 7 ranks are published", change: func(l *list) {
			l.sorted(NewOrder(testUID, *l.record.Root, *l.record.Link, []byte{1, 2, 3}))[7].State = "sold"
		}},
		"one user with two entries": {python: true, problem: `claims 0-3-1 and 2-8-1: user "user1" has two entries`, change: func(l *list) {
			l.lines[11].User, l.lines[11].Label = "user1", Label(testUID, "user1", l.lines[11].Key)
			l.drawAgain()
		}},
		"one label with two entries": {python: true, problem: "claims 0-3-1 and 2-8-1: they have the same label", change: func(l *list) {
			l.lines[11].Label = l.lines[1].Label
			for i := range l.lines {
				l.lines[i].User, l.lines[i].Key = "", ""
			}
			l.drawAgain()
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
			output := strings.Join(r.Problems, "\n")
			if r.OK != (test.problem == "") || len(r.Problems) > 0 == r.OK || !strings.Contains(output, test.problem) {
				t.Errorf("the report is ok: %v\n%s\nnot: %s", r.OK, output, test.problem)
			}
			if test.python && !testing.Short() {
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
	output, err := exec.Command(python, append([]string{"testdata/verify.py", file}, args...)...).CombinedOutput()
	if (err == nil) != ok || !ok && bytes.Contains(output, []byte("Traceback")) {
		t.Errorf("the verifier in Python prints: %v, %s", err, output)
	}
	return string(output)
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
	if output := python(t, l.export(t), true, sorted[8].User); !strings.HasPrefix(output, "rank 9: entered\n") {
		t.Errorf("the verifier in Python prints %q", output)
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

func TestVerifyRefusesAUserWithoutKey(t *testing.T) {
	beacon := drand
	l := newList(&beacon, []byte{1, 2, 3})
	if r, err := Verify(bytes.NewReader(l.export(t)), Options{User: "nobody"}); err != nil || r.Claim != "" {
		t.Errorf("a user without an entry, in a list with users: %+v, %v", r, err)
	}
	for i := range l.lines {
		l.lines[i].Key = ""
	}
	if r, err := Verify(bytes.NewReader(l.export(t)), Options{User: "user4"}); err != nil || r.Rank != 5 {
		t.Errorf("a user of a list without keys: %+v, %v", r, err)
	}
	for i := range l.lines {
		l.lines[i].User = ""
	}
	if r, err := Verify(bytes.NewReader(l.export(t)), Options{User: "user4"}); !errors.Is(err, ErrKeyNeeded) {
		t.Errorf("a user without key, in a list without users: %+v, %v", r, err)
	}
}

func TestVerifyNamesThoseWhoWait(t *testing.T) {
	beacon := drand
	l := newList(&beacon, []byte{1, 2, 3})
	l.record.Ended = false
	skipped := l.ranked(2)
	skipped.State = StateEntered
	r, err := Verify(bytes.NewReader(l.export(t)), Options{})
	want := []string{fmt.Sprintf("claim %s: it has rank 2 and waits for its unit", skipped.Claim)}
	if err != nil || !r.OK || r.Waiting != 1 || !slices.Equal(r.Notes, want) {
		t.Errorf("with a winner skipped before the end: %+v, %v", r, err)
	}

	// Just after the reveal all wait.
	l.record.Stock, l.record.Winners, l.record.Reach, l.record.Lapsed, l.record.Ranks = 12, 12, 12, 0, 12
	for i, line := range l.sorted(NewOrder(testUID, *l.record.Root, *l.record.Link, []byte{1, 2, 3})) {
		line.State, line.Rank = StateEntered, int64(i+1)
	}
	r, err = Verify(bytes.NewReader(l.export(t)), Options{})
	if err != nil || !r.OK || r.Waiting != 12 || len(r.Notes) != 11 || r.Notes[10] != "2 more wait for their units" {
		t.Errorf("with 12 that wait: %+v, %v", r, err)
	}

	// While ranks are being published nothing is awarded.
	l.record.Ranks = 0
	for i := range l.lines {
		l.lines[i].Rank = 0
	}
	r, err = Verify(bytes.NewReader(l.export(t)), Options{})
	if err != nil || !r.OK || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "0 of 12 ranks are published") {
		t.Errorf("before the ranks are published: %+v, %v", r, err)
	}
}

// As long as a draw has not ended, the numbers of the header may be later than the lines.
func TestVerifyBetweenTwoLines(t *testing.T) {
	beacon := drand
	l := newList(&beacon, []byte{1, 2, 3})
	l.record.Ended = false
	l.ranked(3).State = "held" // its substitute, of rank 5, has the unit
	r, err := Verify(bytes.NewReader(l.export(t)), Options{})
	if err != nil || !r.OK || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "draw.lapsed is 1, and 0 entries are expired, cancelled or refunded") {
		t.Errorf("a hold that lapsed after its line was read: %+v, %v", r, err)
	}
	l.record.Reach = 3
	l.ranked(5).State, l.ranked(4).State, l.ranked(3).State = StateEntered, StateEntered, "expired"
	r, err = Verify(bytes.NewReader(l.export(t)), Options{})
	if err != nil || !r.OK || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "ranks up to 3 might be awarded, and the stock was 4") {
		t.Errorf("a sale that was closed for good before the draw: %+v, %v", r, err)
	}
}

func TestVerifyWhatWasNoted(t *testing.T) {
	beacon := drand
	l := newList(&beacon, []byte{1, 2, 3})
	export := l.export(t)
	other := Digest{1}
	for want, o := range map[string]Options{
		"": {Commitment: &l.record.Commitment, Root: l.record.Root},
		"header: draw.commitment is " + l.record.Commitment.String() + ", but you have noted 01": {Commitment: &other},
		"header: draw.root is " + l.record.Root.String() + ", but you have noted 01":             {Root: &other},
	} {
		r, err := Verify(bytes.NewReader(export), o)
		if err != nil || r.OK != (want == "") || !strings.HasPrefix(strings.Join(r.Problems, "\n"), want) {
			t.Errorf("%+v: %+v, %v, not %s", o, r, err, want)
		}
		if r.Commitment != l.record.Commitment || *r.Root != *l.record.Root || *r.Link != *l.record.Link || *r.Beacon != drand {
			t.Errorf("the report does not say what was published: %+v", r)
		}
	}
	l.record.Root, l.record.Link, l.record.Shards = nil, nil, nil
	if r, err := Verify(bytes.NewReader(l.export(t)), Options{Root: &other}); err != nil || !strings.Contains(strings.Join(r.Problems, "\n"), "header: draw.root is missing, but you have noted 01") {
		t.Errorf("a root that is not published yet: %+v, %v", r, err)
	}
}

// What is published is enough to verify the draw, and reveals nothing of anybody.
func TestPublish(t *testing.T) {
	private := []string{"pay-77", "operator-olga", "asked-by-phone", "attr5", "secret-code"}
	beacon := drand
	for name, change := range map[string]func(*list){
		"right":            func(*list) {},
		"a winner skipped": func(l *list) { l.ranked(2).State = StateEntered },
		"an entry removed": func(l *list) { l.lines = slices.Delete(l.lines, 6, 7) },
	} {
		l := newList(&beacon, []byte{1, 2, 3})
		for i := range l.lines {
			line := &l.lines[i]
			line.User, line.Key = fmt.Sprintf("visitor-%d", i), fmt.Sprintf("request-%d", i)
			line.Label = Label(testUID, line.User, line.Key)
			private = append(private, line.User, line.Key)
		}
		l.drawAgain()
		l.lines[1].Key, l.lines[1].KeyBase64 = "", []byte(l.lines[1].Key)
		change(l)
		full := l.exportInFull(t, private)

		var published, again bytes.Buffer
		if err := Publish(bytes.NewReader(full), &published); err != nil {
			t.Fatal(err)
		}
		for _, text := range private {
			forms := inBase64(text)
			if !slices.ContainsFunc(forms[1:], func(form string) bool { return bytes.Contains(full, []byte(form)) }) {
				t.Errorf("%s: the commits of the export lack %q", name, text)
			}
			for _, form := range forms {
				if bytes.Contains(published.Bytes(), []byte(form)) {
					t.Errorf("%s: %q is published, as %q", name, text, form)
				}
			}
		}
		if err := Publish(bytes.NewReader(published.Bytes()), &again); err != nil || again.String() != published.String() {
			t.Errorf("%s: what is published of a published list differs: %v\n%s", name, err, again.String())
		}
		fields := map[string]bool{}
		for i, text := range strings.Split(strings.TrimSpace(published.String()), "\n") {
			var line map[string]any
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
			for field := range line {
				fields[fmt.Sprintf("%t %s", i == 0, field)] = true
			}
		}
		for _, field := range []string{"true format", "true kind", "true sale", "true uid", "true draw", "false claim", "false state", "false at", "false label", "false rank"} {
			if !fields[field] {
				t.Errorf("%s: the header (true) or the lines lack %s", name, field)
			}
			delete(fields, field)
		}
		if len(fields) > 0 {
			t.Errorf("%s: more is published: %v", name, fields)
		}

		want, err := Verify(bytes.NewReader(full), Options{User: l.lines[3].User, Key: l.lines[3].Key})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Verify(&published, Options{User: l.lines[3].User, Key: l.lines[3].Key})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the published list is verified as\n%+v, %v, the export as\n%+v", name, got, err, want)
		}
		python(t, again.Bytes(), want.OK)
	}
	for text, want := range map[string]string{
		"{}\n":      "an export begins with a header of kind",
		"kind: x\n": "an export begins with a header",
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"0-3-0"}` + "\n": "line 2: claim 0-3-0: it has no label",
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"ada"}` + "\n":   `line 2: "ada" is not the name of a claim`,
	} {
		if err := Publish(strings.NewReader(text), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}

// exportInFull is an export with all that the ledger's has, and with texts in its lines.
func (l *list) exportInFull(t *testing.T, texts []string) []byte {
	t.Helper()
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.Encode(map[string]any{"format": 1, "kind": "export", "sale": "trainers", "uid": testUID, "roots": texts, "counts": map[string]any{"shards": 3}, "draw": l.record})
	for _, line := range l.lines {
		lines.Encode(struct {
			Line
			Sale       string              `json:"sale"`
			Payloads   []map[string]string `json:"payloads"`
			Attributes string              `json:"attributes"`
			Who        string              `json:"who"`
			Why        string              `json:"why"`
			Payment    string              `json:"payment"`
			RefundDue  []string            `json:"refundDue"`
		}{line, "trainers", []map[string]string{{"code": texts[4]}}, texts[3], texts[1], texts[2], texts[0], texts[:1]})
	}
	for i := range l.lines {
		lines.Encode(map[string]any{"shard": 0, "slot": i, "commit": []byte(strings.Join(texts, "\x00")[i:])})
	}
	return b.Bytes()
}

// inBase64 is a text, and what of it is found in the base64 of any bytes around it.
func inBase64(text string) []string {
	forms := []string{text}
	for skip := range 3 {
		whole := text[skip:]
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(whole[:len(whole)-len(whole)%3])))
	}
	return forms
}

func TestVerifyBeforeTheDraw(t *testing.T) {
	l := newList(nil, nil)
	l.record.Link, l.record.Ranks, l.record.Stock, l.record.Reach, l.record.Lapsed, l.record.Ended = nil, 0, 0, 4, 0, false
	for i := range l.lines {
		l.lines[i].State, l.lines[i].Rank = StateEntered, 0
	}
	if r, err := Verify(bytes.NewReader(l.export(t)), Options{}); err != nil || !r.OK || r.Revealed {
		t.Errorf("before it is revealed the report is %+v, %v", r, err)
	}
	l.lines[3].State = "sold"
	if r, _ := Verify(bytes.NewReader(l.export(t)), Options{}); r.OK || !strings.Contains(r.Problems[0], "claim 0-4-1: it has a rank or a unit, but nothing is revealed yet") {
		t.Errorf("an award before the secret was revealed: %+v", r)
	}
}

const header = `{"format":1,"kind":"export","draw":`

func TestVerifyWhatIsNoExport(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "line 1: EOF",
		"{}\n":                                "line 1: an export begins with a header of kind",
		`{"format":1,"kind":"export"}` + "\n": `line 1: ` + ErrNoDraw.Error(),
		`{"format":2,"kind":"export"}` + "\n": "line 1: an export of format 2 cannot be read, only format 1",
		"never\n":                             "line 1: an export begins with a header",
		header + `{"closesAt":"x"}}` + "\n":   "line 1: draw.closesAt",
		`{"format":1,"kind":"plan","draw":{}}` + "\n":                                        `line 1: an export begins with a header of kind "export" or "entries", and this one is of kind "plan"`,
		`{"format":2,"kind":"export","draw":{}}` + "\n":                                      "line 1: an export of format 2 cannot be read, only format 1",
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":`:                 "line 2: it ends in the middle",
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"0-u3"}` + "\n":   `line 2: "0-u3" is not the name of a claim`,
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"+0-3-0"}` + "\n": `line 2: "+0-3-0" is not the name of a claim`,
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"0-03-0"}` + "\n": `line 2: "0-03-0" is not the name of a claim`,
		header + `{"closesAt":"2026-11-27T18:00:00Z"}}` + "\n" + `{"claim":"0-3-0"}` + "\n":  "line 2: claim 0-3-0: parsing time",
		header + `{"closesAt":"2026-11-27T18:00:00Z","root":"00"}}` + "\n":                   `is not a digest of 64 hex digits`,
	} {
		if _, err := Verify(strings.NewReader(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}

func BenchmarkLowest(b *testing.B) {
	order, entries := NewOrder(testUID, Digest{}, Digest{}, nil), make([]Entry, 1_000_000)
	for b.Loop() {
		for i := range entries {
			entries[i].Label = Digest{byte(i), byte(i >> 8), byte(i >> 16)}
		}
		order.Lowest(entries, 10_000)
	}
}
