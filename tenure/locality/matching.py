"""Minimum-cost maximum matching of tasks to slots that are alike on each place (Eq. 2 and 3).

Theory of operation. Tasks are taken in one after another, each along the cheapest path from it to a
free slot that moves others on the way (successive shortest paths, the Hungarian algorithm on the
graph of ``costs``): Dijkstra over the sites, made free of negative lengths by a price on each site.
The slots of a place share one label, and one label stands for a whole rack, which is what makes
this faster than on the matrix. Before, every task whose cheapest edge leads to a free slot gets it.

Invariants, of every edge (i, s) of a matched task i at place k with edge cost c_k:
``c_s - c_k + price[k] - price[s] >= 0``, ``price[pool] >= price[member]``, and a place with free
slots has the price minus its term. At the end they prove the optimum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tenure.locality.costs import Graph
from tenure.locality.heap import pop, push
from tenure.model.placing import Ints

#: Farther than any path.
FAR = 1 << 62
NOWHERE = -1
#: How many members of a pool are looked at for the next one's turn: bounds the look to O(1).
LOOK = 8
#: What ``State.marks`` holds: length of the stack and of the heap, sites labelled, and of the best
#: way out: its length, the place it ends at, the task that goes there, the cost of its edge. Then
#: the cost of staying without a slot.
STACK, HEAP, LABELLED, BEST, END, MOVER, PAYS, LEFT_OUT = range(8)
MARKS = 8


class State(NamedTuple):
    """A matching under way: sites (s,) places first, tasks (n,), and the search's own arrays.

    ``price`` (s,); ``load`` (p,) slots taken; ``cursor`` (pools,) passes over full members,
    ``turn`` (pools,) is the member whose turn it is;
    ``at`` (n,) the place of a task, ``paid`` (n,) the cost of the edge it came by, ``resident``
    (p,), ``after`` and ``before`` (n,) the tasks of a place as lists. Of a search: ``distance``,
    ``by`` and ``toll`` (s,) label a site, with the task that would go there and its edge's cost.
    """

    price: Ints
    load: Ints
    cursor: Ints
    turn: Ints
    at: Ints
    paid: Ints
    resident: Ints
    after: Ints
    before: Ints
    distance: Ints
    by: Ints
    toll: Ints
    labelled: Ints
    stack: Ints
    heap: Ints
    marks: Ints


def match(graph: Graph) -> tuple[Ints, Ints]:
    """Return the place of each task (n,), NOWHERE without one, and its cost with the term (n,).

    Places are those of ``Places``, not their numbers as sites.

    As many tasks as possible get a slot, at the lowest sum of costs. Tasks without an edge get
    none. Each of n tasks takes at most O(e log e + pools), most of them O(1).
    """
    state = begin(graph)
    fill(graph, state)
    return state.at, state.paid


class Row(list[int]):
    """An array (n,) as a list: plain Python reads and writes its numbers three times as fast."""

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


def match_plainly(graph: Graph) -> tuple[Ints, Ints]:
    """Return what ``match`` does, which is compiled, sooner than that does uncompiled."""
    rows: tuple[Any, ...] = tuple(Row(row.tolist()) for row in graph)
    begun: tuple[Any, ...] = tuple(Row(row.tolist()) for row in begin(graph))
    state = State(*begun)
    fill(Graph(*rows), state)
    return np.array(state.at, dtype=np.int64), np.array(state.paid, dtype=np.int64)


def fill(graph: Graph, state: State) -> None:
    """Match all tasks, and give their places and costs as ``match`` does."""
    n = state.at.shape[0]
    for i in range(n):
        if graph.first[i] < graph.first[i + 1] and not take_cheapest(graph, state, i):
            state.paid[i] = NOWHERE
    for i in range(n):
        if state.paid[i] == NOWHERE:
            insert(graph, state, i)
    for i in range(n):
        if state.at[i] != NOWHERE:
            state.paid[i] += graph.term[state.at[i]]
            state.at[i] = graph.place[state.at[i]]


def begin(graph: Graph) -> State:
    """Return the state without any task matched."""
    n, p, pools = graph.first.shape[0] - 1, graph.slots.shape[0], graph.inside.shape[0] - 1
    edges, sites = graph.site.shape[0], p + pools
    price = np.empty(sites, dtype=np.int64)
    for j in range(p):
        price[j] = -graph.term[j]
    for g in range(pools):
        begun = graph.inside[g]
        price[p + g] = -graph.term[graph.member[begun]] if begun < graph.inside[g + 1] else 0
    most = 0
    for e in range(edges):
        most = max(most, graph.cost[e])
    for j in range(p):
        most = max(most, graph.term[j])
    marks = np.zeros(MARKS, dtype=np.int64)
    marks[LEFT_OUT] = 4 * (most + 1) * (n + 1)
    none = np.full(n, NOWHERE, dtype=np.int64)
    room = edges + 3 * sites + 1
    return State(
        price,
        np.zeros(p, dtype=np.int64),
        graph.inside[:-1].copy(),
        graph.inside[:-1].copy(),
        none.copy(),
        np.zeros(n, dtype=np.int64),
        np.full(p, NOWHERE, dtype=np.int64),
        none.copy(),
        none.copy(),
        np.full(sites, FAR, dtype=np.int64),
        np.empty(sites, dtype=np.int64),
        np.empty(sites, dtype=np.int64),
        np.empty(sites, dtype=np.int64),
        np.empty(room, dtype=np.int64),
        np.empty(2 * room, dtype=np.int64),
        marks,
    )


def free_member(graph: Graph, state: State, pool: int) -> int:
    """Return a free place of a pool with the lowest term, NOWHERE if it is full.

    Of several it takes turns, so that those who run as well anywhere are spread over nodes.
    """
    at, end = state.cursor[pool], graph.inside[pool + 1]
    while at < end and state.load[graph.member[at]] >= graph.slots[graph.member[at]]:
        at += 1
    state.cursor[pool] = at
    if at == end:
        return NOWHERE
    found = graph.member[at]
    for turn in range(max(at, state.turn[pool]), min(end, state.turn[pool] + LOOK)):
        member = graph.member[turn]
        if graph.term[member] != graph.term[found]:
            break
        if state.load[member] < graph.slots[member]:
            state.turn[pool] = turn + 1
            return int(member)
    state.turn[pool] = at + 1
    return int(found)


def take_cheapest(graph: Graph, state: State, task: int) -> bool:
    """Give a task the slot at the end of its cheapest edge; False if there is none free.

    To be called before any price has changed.
    """
    p = graph.slots.shape[0]
    best, chosen = -FAR, 0
    for e in range(graph.first[task], graph.first[task + 1]):
        worth = state.price[graph.site[e]] - graph.cost[e]
        if worth > best:
            best, chosen = worth, e
    place = graph.site[chosen]
    if place >= p:
        member = free_member(graph, state, place - p)
        if member == NOWHERE or state.price[member] != state.price[place]:
            return False
        place = member
    elif state.load[place] >= graph.slots[place]:
        return False
    settle(state, task, place, graph.cost[chosen])
    state.load[place] += 1
    return True


def settle(state: State, task: int, place: int, cost: int) -> None:
    """Note that a task runs at a place (NOWHERE: nowhere), and not where it did before."""
    old = state.at[task]
    if old != NOWHERE:
        after, before = state.after[task], state.before[task]
        if before == NOWHERE:
            state.resident[old] = after
        else:
            state.after[before] = after
        if after != NOWHERE:
            state.before[after] = before
    state.at[task], state.paid[task] = place, cost
    if place != NOWHERE:
        neighbour = state.resident[place]
        state.after[task], state.before[task] = neighbour, NOWHERE
        if neighbour != NOWHERE:
            state.before[neighbour] = task
        state.resident[place] = task


def insert(graph: Graph, state: State, task: int) -> None:
    """Match one more task, moving others where that is cheapest."""
    marks = state.marks
    lowest = -FAR
    for e in range(graph.first[task], graph.first[task + 1]):
        lowest = max(lowest, state.price[graph.site[e]] - graph.cost[e])
    lowest = max(lowest, -marks[LEFT_OUT])
    marks[STACK] = marks[HEAP] = marks[LABELLED] = 0
    marks[BEST] = FAR
    relax(graph, state, task, lowest, 0)
    explore(graph, state)
    reprice(state, marks[BEST])
    place, mover, pays = marks[END], marks[MOVER], marks[PAYS]
    if place != NOWHERE:
        state.load[place] += 1
    while mover != task:
        old = state.at[mover]
        settle(state, mover, place, pays)
        place, mover, pays = old, state.by[old], state.toll[old]
    settle(state, task, place, pays)


def relax(graph: Graph, state: State, task: int, offset: int, level: int) -> None:
    """Label what the edges of a task lead to; its own label plus its price is ``offset``."""
    p, marks = graph.slots.shape[0], state.marks
    if offset + marks[LEFT_OUT] < marks[BEST]:
        marks[BEST], marks[END] = offset + marks[LEFT_OUT], NOWHERE
        marks[MOVER], marks[PAYS] = task, 0
    for e in range(graph.first[task], graph.first[task + 1]):
        site, cost = graph.site[e], graph.cost[e]
        there = offset + cost - state.price[site]
        if there >= marks[BEST] or there >= state.distance[site]:
            continue
        if site < p:
            if state.load[site] < graph.slots[site]:
                marks[BEST], marks[END], marks[MOVER], marks[PAYS] = there, site, task, cost
                continue
        else:
            member = free_member(graph, state, site - p)
            if member != NOWHERE:
                out = offset + cost + graph.term[member]
                if out < marks[BEST]:
                    marks[BEST], marks[END], marks[MOVER], marks[PAYS] = out, member, task, cost
        label(state, site, there, level)
        state.by[site], state.toll[site] = task, cost


def label(state: State, site: int, distance: int, level: int) -> None:
    """Note a shorter way to a site, and that it is to be looked at."""
    marks = state.marks
    if state.distance[site] == FAR:
        state.labelled[marks[LABELLED]] = site
        marks[LABELLED] += 1
    state.distance[site] = distance
    if distance == level:
        state.stack[marks[STACK]] = site
        marks[STACK] += 1
    else:
        push(state.heap, marks[HEAP], distance, site)
        marks[HEAP] += 1


def explore(graph: Graph, state: State) -> None:
    """Look at the labelled sites, nearest first, until none is nearer than the best way out."""
    marks, level = state.marks, 0
    while marks[BEST] > level:
        if marks[STACK] > 0:
            marks[STACK] -= 1
            site = state.stack[marks[STACK]]
        elif marks[HEAP] > 0:
            level, site = pop(state.heap, marks[HEAP])
            marks[HEAP] -= 1
        else:
            return
        if state.distance[site] != level:
            continue  # a shorter way was found since
        if site < graph.slots.shape[0]:
            task = state.resident[site]
            while task != NOWHERE:
                relax(graph, state, task, level + state.price[site] - state.paid[task], level)
                task = state.after[task]
        else:
            scan(graph, state, site, level)


def scan(graph: Graph, state: State, site: int, level: int) -> None:
    """Label the full places of a pool; the best of the free ones is known already."""
    pool = site - graph.slots.shape[0]
    for at in range(graph.inside[pool], graph.inside[pool + 1]):
        member = graph.member[at]
        there = level + state.price[site] - state.price[member]
        is_full = state.load[member] >= graph.slots[member]
        if is_full and there < state.marks[BEST] and there < state.distance[member]:
            label(state, member, there, level)
            state.by[member], state.toll[member] = state.by[site], state.toll[site]


def reprice(state: State, best: int) -> None:
    """Lower the prices of the sites nearer than the way that was found, and forget the labels."""
    for at in range(state.marks[LABELLED]):
        site = state.labelled[at]
        if state.distance[site] < best:
            state.price[site] += state.distance[site] - best
        state.distance[site] = FAR
