package main

import (
	"bytes"
	"debug/elf"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// profileOf is a profile that has each stack as often as its position, the innermost
// function first. Functions that are inlined into the next stand before a "+".
func profileOf(stacks ...[]string) *profile.Profile {
	p := new(profile.Profile)
	for i, stack := range stacks {
		s := &profile.Sample{Value: []int64{int64(i + 1), 0}}
		for _, place := range stack {
			var l profile.Location
			for _, name := range strings.Split(place, "+") {
				l.Line = append(l.Line, profile.Line{Function: &profile.Function{Name: name}})
			}
			s.Location = append(s.Location, &l)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

const (
	kernelCall = "internal/runtime/syscall/linux.Syscall6"
	writeCall  = "syscall.write"
	decide     = "salectl/executor/shard.(*sequencer).decide"
	loop       = "salectl/executor.(*runner).runShard"
	pager      = "modernc.org/sqlite/lib._pagerWalFrames"
	serve      = "net/http.(*conn).serve"
	request    = "salectl/testdata/peers/internal/httpload.(*connection).claim"
)

func TestDivide(t *testing.T) {
	// What a sample of each stack counts for.
	cases := []struct {
		want  string
		stack []string
	}{
		{"deciding", []string{"runtime.memmove", "salectl/backends/ledger.(*Draft).claim", decide, loop}},
		{"deciding", []string{"salectl/executor/shard.(*sequencer).decide.func1+" + decide, loop}},
		{"encoding, hashing", []string{"google.golang.org/protobuf/encoding/protowire.AppendVarint+salectl/backends/ledger.(*Draft).Encode", decide, loop}},
		{"allocation", []string{"runtime.memclrNoHeapPointers", "runtime.mallocgc", "salectl/backends/ledger.(*Draft).Encode", decide, loop}},
		{"answering", []string{"salectl/executor/shard.(*sequencer).committed.func1", "salectl/executor/shard.(*sequencer).committed", loop}},
		{store, []string{pager, "salectl/backends/embedded.(*writer).run"}},
		{store, []string{"salectl/executor.(*runner).runShard.func1.1"}},
		{storeCalls, []string{kernelCall, writeCall, pager, "salectl/backends/embedded.(*writer).run"}},
		{storeCalls, []string{kernelCall, writeCall, "net.(*conn).Write", "github.com/tsuna/gohbase/region.(*client).write"}},
		{httpCalls, []string{kernelCall, writeCall, "net.(*conn).Write", serve}},
		{callersCalls, []string{kernelCall, writeCall, "net.(*conn).Write", request}},
		{votes, []string{kernelCall, writeCall, "net.(*conn).Write", "github.com/redis/go-redis/v9/internal/pool.(*Conn).WithWriter"}},
		{"channels, locks: to wait and to wake", []string{"runtime.gopark", "runtime.chanrecv", "salectl/executor/request.(*Ticket).Await", "salectl/executor.(*Executor).do"}},
		{"scheduler: whom to run, sleeping threads", []string{kernelCall, "internal/runtime/syscall/linux.EpollWait", "runtime.netpoll", "runtime.findRunnable", "runtime.mcall"}},
		{httpServer, []string{"bufio.(*Reader).fill", serve}},
		{callers, []string{"bufio.(*Reader).fill", request}},
		{rest, []string{kernelCall, writeCall, "os.(*File).Write", "somebody.else"}},
		{rest, []string{kernelCall, writeCall, "os.(*File).Write", decide, loop}}, // it should make none
		{rest, []string{"salectl/executors.Other", "runtime.main"}},
		{rest, nil},
	}
	var stacks [][]string
	want, all := make(map[string]int64), int64(0)
	for i, c := range cases {
		stacks = append(stacks, c.stack)
		want[c.want] += int64(i + 1)
		all += int64(i + 1)
		d := newDivider()
		if got := d.stageOf(functions(profileOf(c.stack).Sample[0])); got != c.want {
			t.Errorf("%q is %s, want %s", c.stack, got, c.want)
		}
	}
	d := newDivider()
	d.add(profileOf(stacks...))
	sum, shares := int64(0), 0.0
	for _, s := range stages { // which are all rows of the table
		if d.samples[s.name] != want[s.name] {
			t.Errorf("%s has %d samples, want %d", s.name, d.samples[s.name], want[s.name])
		}
		sum, shares = sum+d.samples[s.name], shares+d.share(s.name)
	}
	if sum != all || d.all != all || shares < 0.999999 || shares > 1.000001 {
		t.Errorf("the rows have %d samples and %v of all, the profile has %d, counted were %d", sum, shares, all, d.all)
	}
}

// A whole name counts before the beginning of one, and a long beginning before a short one.
func TestStageOfAFunction(t *testing.T) {
	d := newDivider()
	d.name([]string{"a."}, "package")
	d.name([]string{"a.(*B)."}, "type")
	d.name([]string{"a.(*B).c"}, "function")
	for name, want := range map[string]string{"a.d": "package", "a.(*B).d": "type", "a.(*B).c": "function", "a.(*B).c.func1": "type", "ab.d": "", "a": ""} {
		if got := d.stage(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestProbes(t *testing.T) {
	const find, search = "salectl/backends/ledger.(*table).find", "salectl/backends/ledger.(*claims).look"
	d := newDivider()
	d.add(profileOf(
		[]string{find, search, "salectl/executor/shard.(*ledgerView).Recall"}, // 1
		[]string{"aeshashbody", search, find},                                 // 2: it hashes
		[]string{"memeqbody", "salectl/backends/ledger.(*texts).equal"},       // 3
		[]string{"modernc.org/sqlite/lib._find"},                              // 4
	))
	if d.probing != 1+3 {
		t.Errorf("%d samples are in the hash tables, want 4", d.probing)
	}
}

// whole keeps the whole program in that of the tests: the linker leaves out what nobody calls.
var whole = run

// TestFunctionsExist searches the program for each function that a stage names. What was renamed
// would count for another stage, or none.
func TestFunctionsExist(t *testing.T) {
	if whole == nil {
		t.Fatal("nobody calls the program")
	}
	table := functionTable(t)
	names := slices.Concat(systemCalls, probes)
	for _, s := range stages {
		names = append(names, s.functions...)
	}
	for _, name := range names {
		entry := "\x00" + name
		if !isRange(name) {
			entry += "\x00"
		}
		if !bytes.Contains(table, []byte(entry)) {
			t.Errorf("no function of the program has the name %q", name)
		}
	}
	if bytes.Contains(table, []byte("\x00salectl/executor.(*Executor).Cla\x00")) {
		t.Error("a part of a name is found as if it were one")
	}
}

// functionTable is where this program has the names of its functions, those that are inlined
// everywhere too, each between zeros.
func functionTable(t *testing.T) []byte {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	section := program.Section(".gopclntab")
	if section == nil {
		t.Fatal("the program has no table of functions")
	}
	table, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Two stages that name the same, or have one name, would be one row too many or too few.
func TestStagesDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range stages {
		for _, name := range append([]string{"stage " + s.name}, s.functions...) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
	}
	for of, calls := range callsOf {
		for _, name := range []string{of, calls} {
			if !seen["stage "+name] {
				t.Errorf("no row has the name %q", name)
			}
		}
	}
}
