package sim

import "time"

// ambush is a fault that lies in wait for a step: it befalls a world when that has
// just landed, or is about to be sent. Two events that have to coincide seldom do by chance.
type ambush struct {
	what   string
	when   reached // wasSent or landed
	steps  []string
	likely float64 // each time a step comes so far
	do     func(w *world, r random, p *process)
}

// ambushes are the kinds of them. Each world has some.
var ambushes = []ambush{
	// Units are on their way between two shards and nobody is left to receive
	// them: destroy has to end the transfer itself.
	{"killed amid a transfer", landed, []string{"append out", "append in"}, 0.8, func(w *world, r random, _ *process) {
		w.killAll(r)
		w.operators.destroyNow()
	}},
	// What comes in meanwhile goes into one commit, with what other shards send.
	{"store slow amid a transfer", landed, []string{"append out"}, 0.5, func(w *world, r random, _ *process) {
		w.store.slowDown(r.spread(50*time.Millisecond, 1900*time.Millisecond), r.between(time.Second, 5*time.Second))
	}},
	// Shards request units until the generation that closes them is taken.
	{"closed amid a transfer", landed, []string{"append out", "append in"}, 0.5, func(w *world, r random, _ *process) {
		w.store.slowDown(r.spread(200*time.Millisecond, 1900*time.Millisecond), r.between(2*time.Second, 6*time.Second))
		w.operators.run(command{kind: closes, runs: 3}, func() {})
		w.rush(r)
	}},
	// The planner finds no owner, and does its part beside one that is about to
	// append something else.
	{"nodes emptied amid a plan", landed, []string{"planned"}, 0.5, func(w *world, r random, _ *process) {
		w.store.slowDown(r.spread(200*time.Millisecond, 1900*time.Millisecond), w.scenario.ttl)
		for _, n := range w.nodes {
			n.crash(0, comesBackEmpty)
		}
	}},
	// The planner waits for the owner a ttl, and then does its part.
	{"executors paused amid a plan", landed, []string{"planned"}, 0.4, func(w *world, r random, _ *process) {
		for _, e := range w.executors {
			e.pause(r.spread(w.scenario.ttl/2, 3*w.scenario.ttl), false)
		}
	}},
	// The planner reads its own plan back, or none.
	{"store frozen amid a plan", landed, []string{"planned", "create shard", "generation"}, 0.3, func(w *world, r random, _ *process) {
		w.store.freeze(r.spread(50*time.Millisecond, 3*time.Second))
	}},
	// A command that seems to hang is given once more, and goes on beside its rival.
	{"command paused amid an append", landed, []string{"close", "seal", "drive in", "drive out", "generation"}, 0.3, func(w *world, r random, p *process) {
		p.pause(r.spread(time.Second, 20*time.Second), false)
		if w.operators.ending {
			w.operators.run(command{kind: destroy, runs: 5}, func() {})
		}
	}},
	{"executor suspended amid an append", landed, []string{"append claims", "append own", "append out"}, 0.1, func(w *world, r random, p *process) {
		p.pause(r.spread(w.scenario.ttl, 4*w.scenario.ttl), true)
	}},
	// It lives, and does not receive the result of its append: the sale may end
	// meanwhile.
	{"executor cut off amid an append", landed, []string{"append claims", "append out"}, 0.1, func(w *world, r random, p *process) {
		w.net.cutOff(p.host, r.chance(0.5), r.spread(2*time.Second, 15*time.Second))
		if r.chance(0.2) {
			w.operators.destroyNow()
		}
	}},
	// It takes more units in, and does not know yet.
	{"executor deaf amid a generation", landed, []string{"append generation"}, 0.2, func(w *world, r random, p *process) {
		w.net.deafen(p.host, r.spread(100*time.Millisecond, 4*time.Second))
	}},
	// What ages by the wall clock does not age.
	{"clock set back amid a pause", landed, []string{"renew"}, 0.02, func(w *world, r random, p *process) {
		d := r.spread(w.scenario.ttl, 4*w.scenario.ttl)
		p.pause(d, false)
		p.shift(-d, p.clock.rate)
	}},
}

// lurk draws the kinds that a world has.
func lurk(r random) []int {
	var kinds []int
	for i := range ambushes {
		if r.chance(0.25) {
			kinds = append(kinds, i)
		}
	}
	return kinds
}

// landed lets an ambush befall the world that waited for this step of a process.
func (w *world) landed(p *process, step string) {
	w.auditor.landed(step)
	if step == "append out" {
		w.besetTransfers(p)
	}
	for _, a := range w.lurking[step] {
		if w.random.faults.chance(a.likely) && w.fault("world", a.what) {
			a.do(w, w.random.faults, p)
		}
	}
}

// lurkers are the ambushes of a world by the steps that they wait for.
func (s *scenario) lurkers() map[string][]*ambush {
	all := make(map[string][]*ambush)
	wait := func(kinds []ambush, drawn []int) {
		for _, i := range drawn {
			for _, step := range kinds[i].steps {
				all[step] = append(all[step], &kinds[i])
			}
		}
	}
	wait(ambushes, s.ambushes)
	wait(listAmbushes, s.listAmbushes)
	return all
}
