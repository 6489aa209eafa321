"""Coverage, precision of fail and recall of the first mistake, through the protocol of docs/rewards/checkers.md.

    cargo build --release -p beamgen-checkers --example arithmetic_checker
    DATA=folder python3 benches/checkers/measure.py arithmetic bb     # also pb, pbm, gsm, gsmtest, ms, prm

Every fail on a step that is labelled right is printed with its reason. `beamgen check` gives the same for files of
labelled chains.
"""

import json,subprocess,sys,glob,os
name=sys.argv[1]; which=sys.argv[2]; show=int(sys.argv[3]) if len(sys.argv)>3 else 60
exe='target/release/examples/arithmetic_checker'
D=os.environ['DATA']+'/'
chains=[]
if which=='bb':
    for l in open(D+'bigbench_mistake_arithmetic.jsonl'):
        r=json.loads(l); chains.append((r['input'],r['steps'],-1 if r['mistake_index'] is None else r['mistake_index']))
elif which=='pb':
    for r in json.load(open(D+'processbench_gsm8k.json')): chains.append((r['problem'],r['steps'],r['label']))
elif which=='pbm':
    for r in json.load(open(D+'processbench_math.json')): chains.append((r['problem'],r['steps'],r['label']))
elif which.startswith('gsm'):
    for l in open(D+'gsm8k_train.jsonl' if which=='gsm' else D+'gsm8k_test.jsonl'):
        r=json.loads(l); chains.append((r['question'],r['answer'].split('\n####')[0].split('\n'),-1))
elif which=='ms':
    for l in open(D+'gsm8k_model_solutions.jsonl'):
        r=json.loads(l)
        for k in r:
            if isinstance(r[k],dict): chains.append((r['question'],[s for s in r[k]['solution'].split('\n') if s.strip()],-1 if r[k]['is_correct'] else None))
elif which=='prm':
    for l in open(D+'prm800k_holdout.jsonl'):
        r=json.loads(l)
        lab=next((i for i,x in enumerate(r['ratings']) if x==-1),-1)
        chains.append((r['problem'],r['steps'],lab))
reqs=[];idx=[]
for c,(p,steps,l) in enumerate(chains):
    for i in range(len(steps)):
        idx.append((c,i)); reqs.append(json.dumps({"id":len(reqs),"problem":p,"steps":steps[:i+1]}))
out=subprocess.run([exe]+([name] if name!='all' else []),input='\n'.join(reqs)+'\n',capture_output=True,text=True).stdout
V=[json.loads(l) for l in out.splitlines()]
assert len(V)==len(reqs)
from collections import Counter
cnt=Counter(v['verdict'] for v in V)
print(which,len(chains),'chains',len(V),'steps',dict(cnt),'coverage',round(1-cnt['abstain']/len(V),3))
tp=fp=after=unl=0; rec=set(); FP=[]
for (c,i),v in zip(idx,V):
    if v['verdict']!='fail': continue
    l=chains[c][2]
    if l is None: unl+=1
    elif l==-1 or i<l: fp+=1; FP.append((c,i,l,v['reason'],chains[c][1][i]))
    elif i==l: tp+=1; rec.add(c)
    else: after+=1
wrong=sum(1 for c in chains if c[2] is not None and c[2]>=0)
print('tp',tp,'fp',fp,'after',after,'unlabelled',unl,'precision',tp/max(1,tp+fp),'recall',len(rec),'/',wrong)
for x in FP[:show]: print(x[0],x[1],'label',x[2],'|',x[3],'||',x[4][:300].replace('\n','\\n'))
if which=='bb':
    miss=[(c,chains[c][2]) for c in range(len(chains)) if chains[c][2]>=0 and c not in rec]
    print('missed:')
    for c,l in miss[:25]: print(c,l,'|',[chains[c][1][l]][0][:250], '|| problem', chains[c][0])
