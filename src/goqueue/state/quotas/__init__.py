"""Who may use how much per second: which quota is whose, and what was used of it. Pure.

A quota is a bucket that fills at its rate up to `burst` and may be in debt:

    event               tokens                           answer
    time passes         + rate × seconds, up to burst
    something is used   − amount, also below 0           how long until they are at 0 again
    asked beforehand    unchanged                        0, or how long until they are at 0 again

What is asked for is always done; who is in debt afterwards waits. So requests of every size get
through, and over time no more than the rate is used. A full bucket is the same as a new one, so
those of idle owners are forgotten.
"""
