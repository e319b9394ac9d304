import sys, random, time, collections
import nnet3, traceback
from tests.random_lengths import RandomLengths
from tests.random_networks import random_network
from tests.driver.test_any_length import _outcome
from tests.families.networks import same_program, same_program_or_results
from nnet3.compiler.nnet_source import nnet_source
lo, hi, limit = map(int, sys.argv[1:])
start=time.time(); stats=collections.Counter(); reasons=collections.Counter()
for seed in range(lo, hi):
    if time.time()-start>limit: break
    print("at", seed, flush=True); nnet=random_network(seed).nnet()
    cache, requests = nnet3.ComputationCache(), RandomLengths(nnet, seed)
    p = nnet_source(nnet).period or 1
    rng = random.Random(seed)
    unit = rng.choice([1,p])
    base = rng.choice([20,25,40,70])
    bad=False
    for frames in (base, base+6, base-2, base+30, 3*base, base+60, 6*base+12):
        request = requests(frames*unit)
        if request is None: continue
        t=time.time()
        fresh, cached = (_outcome(how, nnet, request, requests.options) for how in (nnet3.compile, cache.compile))
        if isinstance(fresh,str) or isinstance(cached,str):
            if fresh!=cached: print("ERR", seed, frames, str(fresh)[:200], "|", str(cached)[:200]); bad=True
            continue
        if same_program(fresh, cached): continue
        print('seed', seed, frames, flush=True)
        if same_program_or_results(nnet, request, fresh, cached): print("other but same", seed, frames)
        else:
            proved=[(pl.first,pl.is_proved, pl.longest_k) for pl in cache._families._all()]
            print("DIFF", seed, frames*unit, cache.counts, proved); bad=True
    stats['compiled']+=cache.counts.compiled; stats['continued']+=cache.counts.continued; stats['bad']+=bad; stats['nets']+=1
    for pl in cache._families._all(): stats[f"proved {pl.is_proved} family {pl.family is not None}"]+=1
    for r in cache.refusals: reasons[r[:100]]+=1
    if cache.counts.continued==0: stats['none']+=1
print(stats); 
for r,c in reasons.most_common(): print(c,r)
