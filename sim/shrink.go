package sim

import "time"

// Shrink makes a world that fails smaller for as long as it still fails in the
// same way: fewer faults first, since each is something to think about, then
// shorter, then fewer operations and clients. ok is false if it does not fail.
func Shrink(o Options) (small Options, ok bool) {
	o, o.Trace = o.orDefault(), nil
	first := Run(o)
	if first.Err == nil {
		return o, false
	}
	fails := func(o Options) bool {
		r := Run(o)
		return r.Err != nil && len(r.Broken) > 0 && r.Broken[0] == first.Broken[0]
	}
	for before := (Options{}); before != o; {
		before = o
		o.Faults = least(o.Faults, -1, func(n int) bool { x := o; x.Faults = nonZero(n); return fails(x) })
		o.Faults = nonZero(o.Faults)
		o.Until = time.Second * time.Duration(least(int(o.Until/time.Second), 1, func(n int) bool {
			x := o
			x.Until = time.Duration(n) * time.Second
			return fails(x)
		}))
		o.Ops = least(o.Ops, 1, func(n int) bool { x := o; x.Ops = n; return fails(x) })
		o.Clients = least(o.Clients, 1, func(n int) bool { x := o; x.Clients = n; return fails(x) })
	}
	return o, true
}

// nonZero keeps 0, which would mean the default, out of an option: none is -1.
func nonZero(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// least searches a small n at which the failure is still there, from high,
// which is known to fail, towards low. Failing is not monotonic: it is the least
// of those tried, by ever smaller steps down.
func least(high, low int, fails func(int) bool) int {
	for step := (high - low + 1) / 2; step > 0; {
		if n := high - step; n >= low && fails(n) {
			high = n
			step = min(step, (high-low+1)/2)
			continue
		}
		step /= 2
	}
	return high
}
