package explore

// progress searches a state from which the goal is out of reach without faults and,
// in a model that requires it, a fair way that never comes to the goal.
func (g *graph[S]) progress(r *Result) {
	goal := make([]bool, len(g.states))
	for i, s := range g.states {
		goal[i] = g.model.Goal(s)
	}
	near := g.reaching(goal)
	for i := range near {
		if !near[i] {
			r.Wrong, r.Trace = Stuck, g.trace(int32(i))
			g.onward(r, int32(i))
			return
		}
	}
	if !g.model.Fair {
		return
	}
	for _, part := range g.components(goal) {
		if !g.fair(part) {
			continue
		}
		first := part[0]
		for _, i := range part { // the one that was found first has the shortest trace
			first = min(first, i)
		}
		r.Wrong, r.Trace, r.Again = Livelock, g.trace(first), g.round(first, part)
		return
	}
}

// onward adds to a trace what may follow it, up to where nothing can or all repeats.
func (g *graph[S]) onward(r *Result, i int32) {
	at := map[int32]int{}
	var steps []string
	for {
		if n, seen := at[i]; seen {
			r.Trace, r.Again = append(r.Trace, steps[:n]...), steps[n:]
			return
		}
		at[i] = len(steps)
		to := int32(-1)
		for e := g.first[i]; e < g.first[i+1]; e++ {
			if g.by[e] != Fault {
				to = g.to[e]
			}
		}
		if to < 0 {
			r.Trace = append(r.Trace, steps...)
			return
		}
		steps = append(steps, g.step(i, to))
		i = to
	}
}

// reaching returns which states have a way to the goal that needs no fault.
func (g *graph[S]) reaching(goal []bool) []bool {
	begin := make([]int32, len(g.states)+1) // steps sorted by where they lead
	for e, to := range g.to {
		if g.by[e] != Fault {
			begin[to+1]++
		}
	}
	for i := 1; i < len(begin); i++ {
		begin[i] += begin[i-1]
	}
	from := make([]int32, begin[len(begin)-1])
	free := append([]int32(nil), begin...)
	for i := range g.states {
		for e := g.first[i]; e < g.first[i+1]; e++ {
			if g.by[e] != Fault {
				from[free[g.to[e]]] = int32(i)
				free[g.to[e]]++
			}
		}
	}
	near := append([]bool(nil), goal...)
	var next []int32
	for i := range goal {
		if goal[i] {
			next = append(next, int32(i))
		}
	}
	for len(next) > 0 {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		for _, f := range from[begin[i]:begin[i+1]] {
			if !near[f] {
				near[f] = true
				next = append(next, f)
			}
		}
	}
	return near
}

// fair reports whether each actor that could take a step in all states of a component
// takes one within it: then nothing that is bound to happen leads out of it.
func (g *graph[S]) fair(part []int32) bool {
	inside := members(part)
	always, moves := ^uint64(0), uint64(0)
	for _, i := range part {
		can := uint64(0)
		for e := g.first[i]; e < g.first[i+1]; e++ {
			if g.by[e] == Fault {
				continue
			}
			can |= 1 << g.by[e]
			if inside[g.to[e]] {
				moves |= 1 << g.by[e]
			}
		}
		always &= can
	}
	return moves != 0 && always&^moves == 0
}

func members(part []int32) map[int32]bool {
	inside := make(map[int32]bool, len(part))
	for _, i := range part {
		inside[i] = true
	}
	return inside
}

// round returns the steps of a way from state i through its component and back on
// which no actor is always able to take a step without taking one.
func (g *graph[S]) round(i int32, part []int32) []string {
	inside := members(part)
	var steps []string
	always, moved := g.can(i), uint64(0)
	at := i
	walk := func(done func(from int32, e int32) bool) {
		for _, e := range g.path(at, inside, done) {
			steps = append(steps, g.step(at, g.to[e]))
			at = g.to[e]
			always &= g.can(at)
			moved |= 1 << g.by[e]
		}
	}
	walk(func(int32, int32) bool { return true })
	for always&^moved != 0 {
		late := always &^ moved
		walk(func(_ int32, e int32) bool { return 1<<g.by[e]&late != 0 || g.can(g.to[e])&late != late })
	}
	if at != i {
		walk(func(_ int32, e int32) bool { return g.to[e] == i })
	}
	return steps
}

// can is who may take a step in state i.
func (g *graph[S]) can(i int32) (actors uint64) {
	for e := g.first[i]; e < g.first[i+1]; e++ {
		if g.by[e] != Fault {
			actors |= 1 << g.by[e]
		}
	}
	return actors
}

// path returns the steps of a shortest way within a component to a step that is done.
func (g *graph[S]) path(from int32, inside map[int32]bool, done func(from int32, e int32) bool) []int32 {
	type hop struct {
		state, step int32 // the step that led there
		before      int   // the hop before, -1: none
	}
	seen := map[int32]bool{from: true}
	hops := []hop{{from, -1, -1}}
	for h := 0; h < len(hops); h++ {
		i := hops[h].state
		for e := g.first[i]; e < g.first[i+1]; e++ {
			if g.by[e] == Fault || !inside[g.to[e]] {
				continue
			}
			if done(i, e) {
				way := []int32{e}
				for b := h; hops[b].step >= 0; b = hops[b].before {
					way = append([]int32{hops[b].step}, way...)
				}
				return way
			}
			if !seen[g.to[e]] {
				seen[g.to[e]] = true
				hops = append(hops, hop{g.to[e], e, h})
			}
		}
	}
	return nil
}
