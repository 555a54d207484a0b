package ledger

import (
	"fmt"
	"sync"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// BenchmarkCommit is the whole of what a sequencer does for a claim, but for
// the append: decide, encode, apply. A shard of 200,000 units sells out and
// begins anew.
func BenchmarkCommit(b *testing.B) {
	const stock = 200_000
	users, keys := names('u', stock), names('k', stock)
	for _, batch := range []int{40, 400} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			b.ReportAllocs()
			for done := 0; done < b.N; {
				b.StopTimer()
				s, _ := MustOpenShard(b, stock, 1)
				d := s.Draft(TestOwner, 1)
				b.StartTimer()
				for at := 0; at < stock && done < b.N; at += batch {
					d.Reset(int64(at))
					for i := at; i < at+batch; i++ {
						if v := d.Claim(users[i], keys[i], 1); v.Kind != Granted {
							b.Fatal(v)
						}
					}
					MustCommit(b, s, d)
					done += batch
				}
			}
		})
	}
}

// BenchmarkEnter is BenchmarkCommit of a draw.
func BenchmarkEnter(b *testing.B) {
	const entries, batch = 200_000, 400
	users, keys := names('u', entries), names('k', entries)
	b.ReportAllocs()
	for done := 0; done < b.N; {
		b.StopTimer()
		s := NewState(testLog)
		d := s.Draft([]byte("planner1"), 0)
		if err := d.Generation(&pb.Generation{Number: 1, Settings: DrawSettings(nil)}); err != nil {
			b.Fatal(err)
		}
		MustCommit(b, s, d)
		mustOwn(b, s)
		d = s.Draft(TestOwner, 1)
		b.StartTimer()
		for at := 0; at < entries && done < b.N; at += batch {
			d.Reset(int64(at))
			for i := at; i < at+batch; i++ {
				if v := d.Claim(users[i], keys[i], 1); v.Kind != Granted {
					b.Fatal(v)
				}
			}
			MustCommit(b, s, d)
			done += batch
		}
	}
}

// BenchmarkClaimAndPay is BenchmarkCommit of a sale with payment: each claim is held, and
// confirmed in a later commit.
func BenchmarkClaimAndPay(b *testing.B) {
	const stock, batch = 200_000, 400
	users, keys := names('u', stock), names('k', stock)
	b.ReportAllocs()
	for done := 0; done < b.N; {
		b.StopTimer()
		s := mustOpenHolding(b, stock)
		d := s.Draft(TestOwner, 1)
		b.StartTimer()
		for at := 0; at < stock && done < b.N; at += batch {
			d.Reset(int64(at))
			for i := at; i < at+batch; i++ {
				d.Claim(users[i], keys[i], 1)
			}
			MustCommit(b, s, d)
			d.Reset(int64(at))
			for i := at; i < at+batch; i++ {
				c, _ := s.Find(users[i], keys[i])
				if v := d.Confirm(c, keys[i]); v.Kind != SettleDone {
					b.Fatal(v)
				}
			}
			MustCommit(b, s, d)
			done += batch
		}
	}
}

// mustOpenHolding returns a shard whose claims are held for a second.
func mustOpenHolding(tb testing.TB, stock int64) *State {
	s, _ := MustOpenShard(tb, stock, 1)
	d := s.Draft(TestOwner, 1)
	if err := d.Generation(&pb.Generation{Number: 2, Settings: paying(1, &pb.Payment{HoldForUs: 1_000_000, Late: pb.Payment_RESELL})}); err != nil {
		tb.Fatal(err)
	}
	MustCommit(tb, s, d)
	return s
}

// BenchmarkExpire ends 100,000 holds that are due at once, 2,000 a commit, while every
// other claim is paid: what is free lies as scattered as it can.
func BenchmarkExpire(b *testing.B) {
	const holds, batch = 100_000, 2000
	users, keys := names('u', 2*holds), names('k', 2*holds)
	for b.Loop() {
		b.StopTimer()
		s := mustOpenHolding(b, 2*holds)
		d := s.Draft(TestOwner, 1)
		for at := 0; at < 2*holds; at += batch {
			d.Reset(int64(at))
			for i := at; i < at+batch; i++ {
				d.Claim(users[i], keys[i], 1)
			}
			MustCommit(b, s, d)
			d.Reset(int64(at))
			for i := at; i < at+batch; i += 2 {
				d.Confirm(s.Claim(i), keys[i])
			}
			MustCommit(b, s, d)
		}
		b.StartTimer()
		ended := 0
		for due := s.Due(2_000_000, batch); len(due) > 0; due = s.Due(2_000_000, batch) {
			d.Reset(2_000_000)
			for _, c := range due {
				d.Expire(c)
			}
			MustCommit(b, s, d)
			ended += len(due)
		}
		if ended != holds || s.OpenHolds != 0 {
			b.Fatalf("%d holds ended", ended)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/holds, "ns/hold")
}

// storedClaims returns the entries of a shard that has sold out, 100 claims a
// slot.
func storedClaims(tb testing.TB, stock int) [][]byte {
	users, keys := names('u', stock), names('k', stock)
	s, first := MustOpenShard(tb, int64(stock), 1)
	entries := [][]byte{first[0].Bytes, first[1].Bytes}
	d := s.Draft(TestOwner, 1)
	for at := 0; at < stock; at += 100 {
		d.Reset(int64(at))
		for i := at; i < min(at+100, stock); i++ {
			d.Claim(users[i], keys[i], 1)
		}
		entries = append(entries, MustCommit(tb, s, d).Bytes)
	}
	return entries
}

// BenchmarkFold loads a shard of 15,625 claims, 100 a slot: one of the 64 that
// a sale of 1,000,000 claims has.
func BenchmarkFold(b *testing.B) {
	const stock = 15_625
	entries := storedClaims(b, stock)
	b.ReportAllocs()
	for b.Loop() {
		s := NewState(testLog)
		for _, e := range entries {
			if err := s.Fold(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/stock, "ns/claim")
}

// BenchmarkLoad loads a sale of 1,000,000 claims, 100 a slot, in 64 shards, two
// shards at a time, through Logs.
func BenchmarkLoad(b *testing.B) {
	const shards, stock = 64, 15_625
	w := &World{T: b, Logs: &MemoryLogs{Logs: make(map[string]*StoredLog)}}
	var head Head
	for _, e := range storedClaims(b, stock) {
		hash := sum(e)
		head = Head{Slot: head.Slot + 1, Hash: hash}
		if w.Logs.Logs[testLog] == nil {
			w.Logs.Logs[testLog], head.Slot = new(StoredLog), 0
		}
		l := w.Logs.Logs[testLog]
		l.Head, l.Entries = head.Encode(), append(l.Entries, e)
	}
	for b.Loop() {
		states := make([]*State, shards)
		var wait sync.WaitGroup
		for half := range 2 {
			wait.Go(func() {
				for i := half; i < shards; i += 2 {
					states[i] = NewState(testLog)
					if _, err := Load(b.Context(), w.Logs, testLog, states[i]); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if n := states[shards-1].Claims(); n != stock {
			b.Fatalf("%d claims", n)
		}
	}
}

// BenchmarkRecall answers from memory, as a shard that has sold out does for
// every request.
func BenchmarkRecall(b *testing.B) {
	const stock = 200_000
	s := NewState(testLog)
	for _, e := range storedClaims(b, stock) {
		if err := s.Fold(e); err != nil {
			b.Fatal(err)
		}
	}
	users, keys := names('u', stock), names('k', stock)
	strangers := names('x', stock)
	for name, query := range map[string]func(i int){
		"same":     func(i int) { s.Find(users[i], keys[i]) },
		"limit":    func(i int) { s.Recall(users[i], "another", 1, 0, Demand{}) },
		"stranger": func(i int) { s.Recall(strangers[i], keys[i], 1, 0, Demand{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				query(i * 7919 % stock)
			}
		})
	}
}
