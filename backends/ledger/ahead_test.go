package ledger

import (
	"strings"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
)

// A clock that was ahead for one takeover leaves nothing behind: whoever owns the
// shard next sets its log's time back, and what opens later is not open.
func TestAheadIsSetBack(t *testing.T) {
	right := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC).UnixMicro()
	minute := time.Minute.Microseconds()
	for name, test := range map[string]struct {
		settings *pb.Settings
		off      int64 // of the clock of the first owner
		want     Refusal
	}{
		"opens in an hour":  {&pb.Settings{PerUserLimit: 2, OpensAtUs: right + 60*minute, Phase: pb.Phase_OPEN}, 61 * minute, RefusedNotYet},
		"closes in an hour": {&pb.Settings{PerUserLimit: 2, ClosesAtUs: right + 60*minute, Phase: pb.Phase_OPEN}, 121 * minute, Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState("log")
			apply := func(writer string, clockUs int64, fill func(*Draft)) {
				t.Helper()
				d := s.Draft([]byte(writer), clockUs)
				fill(d)
				e, err := d.Encode()
				if err == nil {
					err = s.Fold(e.Bytes)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			apply("planner1", right, func(d *Draft) {
				if err := d.Generation(&pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: 9}}, Settings: test.settings}); err != nil {
					t.Fatal(err)
				}
			})
			apply("owner-01", right+test.off, func(d *Draft) { d.Own("a:1") })
			if by, ok := s.Head().Ahead(time.UnixMicro(right)); !ok || by != time.Duration(test.off)*time.Microsecond {
				t.Errorf("it is ahead by %v, %v", by, ok)
			}
			if s.ahead(0) {
				t.Error("without a clock it is ahead too")
			}
			if got := s.refusal(s.commitTime(right)); got != test.want {
				t.Errorf("before it is set back: %q, want %q", got, test.want)
			}
			apply("owner-02", right, func(d *Draft) { d.Own("b:2") })
			if _, ok := s.Head().Ahead(time.UnixMicro(right)); ok {
				t.Error("it is still ahead")
			}
			d := s.Draft([]byte("owner-02"), right+1)
			if v := d.Claim("user", "key", 1); (v.Kind == Granted) != (test.want == Allowed) || d.TimeUs() != right+1 {
				t.Errorf("at %d: %+v", d.TimeUs(), v)
			}
		})
	}
}

// Only an owner sets a log's time back, and only where it is far ahead.
func TestTimeStays(t *testing.T) {
	c := newChain("log")
	c.timeUs = 100 * time.Second.Microseconds()
	ack, err := (&pb.Commit{Prev: c.hash[:], TimeUs: 1, Ops: []*pb.Op{{Op: &pb.Op_Ack{Ack: new(pb.Ack)}}}}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.decode(ack); err == nil || !strings.Contains(err.Error(), "before that of the previous slot") {
		t.Errorf("an ack may set the time back: %v", err)
	}
	if near := c.timeUs - MaxAhead.Microseconds(); c.commitTime(near) != c.timeUs || c.commitTime(near-1) != near-1 || c.commitTime(0) != c.timeUs {
		t.Errorf("within %v it is %d, beyond %d, without a clock %d", MaxAhead, c.commitTime(near), c.commitTime(near-1), c.commitTime(0))
	}
}
